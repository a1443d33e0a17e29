use std::cell::Cell;
use std::future::{pending, poll_fn};
use std::os::unix::net::UnixStream;

use rustix::io::Errno;

use super::*;

/// A reactor with poll(2) and one with epoll(7); both must behave the same.
fn reactors() -> [Reactor; 2] {
    [Reactor::default(), Reactor::for_many().unwrap()]
}

fn pair(reactor: &Reactor) -> (Descriptor, Descriptor) {
    let (one, other) = UnixStream::pair().unwrap();
    let wrap = |end: UnixStream| Descriptor::new(end.into(), reactor).unwrap();
    (wrap(one), wrap(other))
}

#[test]
fn concurrent_writer_wakes_the_reader() {
    for reactor in reactors() {
        let (reader, writer) = pair(&reactor);
        reactor.spawn(async move { writer.write_all(b"hello").await.unwrap() });
        let mut buffer = [0; 16];
        let read = reactor.run(async { reader.read(&mut buffer).await.unwrap() }).unwrap();
        assert_eq!(&buffer[..read], b"hello");
    }
}

#[test]
fn writer_waits_while_the_peer_is_full_and_continues_when_it_reads() {
    const BYTES: usize = 4 << 20;
    for reactor in reactors() {
        let (reader, writer) = pair(&reactor);
        reactor.spawn(async move { writer.write_all(&vec![7; BYTES]).await.unwrap() });
        let all = reactor.run(async {
            let mut buffer = vec![0; 64 << 10];
            let mut all = 0;
            loop {
                match reader.read(&mut buffer).await.unwrap() {
                    0 => return all,
                    read => all += read,
                }
            }
        });
        assert_eq!(all.unwrap(), BYTES);
    }
}

#[test]
fn busy_future_does_not_starve_ready_descriptors() {
    for reactor in reactors() {
        let (reader, writer) = pair(&reactor);
        reactor.spawn(poll_fn(|context| {
            context.waker().wake_by_ref();
            Poll::Pending
        }));
        reactor.spawn(async move {
            writer.write_all(b"x").await.unwrap();
            pending::<()>().await;
        });
        assert_eq!(reactor.run(async { reader.read(&mut [0]).await.unwrap() }).unwrap(), 1);
    }
}

#[test]
fn always_readable_descriptor_does_not_starve_other_futures() {
    for reactor in reactors() {
        let zeros = std::fs::File::open("/dev/zero").unwrap().into();
        let zeros = Descriptor::new(zeros, &reactor).unwrap();
        let (near, far) = pair(&reactor);
        let read_all = Rc::new(Cell::new(false));
        let has_read_all = Rc::clone(&read_all);
        reactor.spawn(async move {
            for _ in 0..100_000 {
                zeros.read(&mut [0; 8]).await.unwrap();
            }
            has_read_all.set(true);
        });
        reactor.spawn(async move { far.write_all(b"x").await.unwrap() });
        let main = async { near.read(&mut [0]).await.unwrap() };
        assert_eq!(reactor.run(main).unwrap(), 1);
        assert!(!read_all.get(), "it was polled until it had read all");
    }
}

#[test]
fn dropped_descriptor_is_closed_after_a_future_waited_for_it() {
    for reactor in reactors() {
        let (waiting, other) = pair(&reactor);
        let waited = Rc::new(Cell::new(false));
        let seen = Rc::clone(&waited);
        let ended = reactor.run(async move {
            {
                let mut buffer = [0];
                let mut read = pin!(waiting.read(&mut buffer));
                poll_fn(|context| {
                    seen.set(read.as_mut().poll(context).is_pending());
                    Poll::Ready(())
                })
                .await;
            }
            drop(waiting);
            other.read(&mut [0]).await.unwrap()
        });
        assert_eq!((waited.get(), ended.unwrap()), (true, 0));
    }
}

#[test]
fn waiting_for_no_descriptor_is_an_error_rather_than_a_hang() {
    for reactor in reactors() {
        let stuck = reactor.run(pending::<()>()).unwrap_err();
        assert_eq!(stuck.raw_os_error(), Some(Errno::DEADLK.raw_os_error()));
    }
}

#[test]
fn thousand_pairs_finish_and_their_task_slots_are_reused() {
    const PAIRS: usize = 200;
    let reactor = Reactor::for_many().unwrap();
    let finished = Rc::new(Cell::new(0));
    for _ in 0..5 {
        let goal = finished.get() + PAIRS;
        for _ in 0..PAIRS {
            let (reader, writer) = pair(&reactor);
            let counted = Rc::clone(&finished);
            reactor.spawn(async move {
                writer.write_all(&vec![7; 300 << 10]).await.unwrap();
                drop(writer);
            });
            let state = reactor.clone();
            reactor.spawn(async move {
                let mut buffer = vec![0; 16 << 10];
                let mut all = 0;
                loop {
                    match reader.read(&mut buffer).await.unwrap() {
                        0 => break,
                        read => all += read,
                    }
                }
                assert_eq!(all, 300 << 10);
                // A task spawned by another task runs too.
                state.spawn(async move { counted.set(counted.get() + 1) });
            });
        }
        let seen = Rc::clone(&finished);
        let all_done = poll_fn(|context| match seen.get() == goal {
            true => Poll::Ready(()),
            false => {
                context.waker().wake_by_ref();
                Poll::Pending
            }
        });
        reactor.run(all_done).unwrap();
    }
    assert_eq!(finished.get(), 5 * PAIRS);
}
