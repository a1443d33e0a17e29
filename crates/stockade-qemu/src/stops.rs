//! Why the programs of a machine are stopped.
//!
//! ```text
//! pause    until a resume; no program starts
//! hold     until a resume; others start and run, and a copy, which would stop those too, waits
//! a copy   until its end, for which a pause, a hold and a resume wait
//! ```

use std::sync::atomic::{AtomicBool, Ordering};

use stockade_carrier::{Link, LinkError};
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard, watch};

/// What stops and continues the programs inside.
pub(crate) trait Programs: Send + Sync {
    fn stop(&self) -> Result<(), LinkError>;
    fn go_on(&self) -> Result<(), LinkError>;
}

impl Programs for Link {
    fn stop(&self) -> Result<(), LinkError> {
        self.pause()
    }

    fn go_on(&self) -> Result<(), LinkError> {
        self.resume()
    }
}

/// Whether programs are stopped.
#[derive(Default)]
pub(crate) struct Stops {
    paused: AtomicBool,
    held: watch::Sender<bool>,
    /// Held while a program starts, and alone while something stops or continues all.
    moment: RwLock<()>,
}

impl Stops {
    fn is_paused(&self) -> bool {
        self.paused.load(Ordering::SeqCst)
    }

    /// Nothing stops programs while one starts. `None` if they are paused.
    pub(crate) async fn starting(&self) -> Option<RwLockReadGuard<'_, ()>> {
        let moment = self.moment.read().await;
        (!self.is_paused()).then_some(moment)
    }

    pub(crate) async fn pause(&self, programs: &impl Programs) -> Result<(), LinkError> {
        let _moment = self.moment.write().await;
        self.paused.store(true, Ordering::SeqCst);
        programs.stop()
    }

    pub(crate) async fn hold(&self, programs: &impl Programs) -> Result<(), LinkError> {
        let _moment = self.moment.write().await;
        self.held.send_replace(true);
        programs.stop()
    }

    pub(crate) async fn resume(&self, programs: &impl Programs) -> Result<(), LinkError> {
        let _moment = self.moment.write().await;
        programs.go_on()?;
        self.paused.store(false, Ordering::SeqCst);
        self.held.send_replace(false);
        Ok(())
    }

    /// Stops all programs until the drop of the result.
    pub(crate) async fn copying<'s, P: Programs>(
        &'s self,
        programs: &'s P,
    ) -> Result<Copying<'s, P>, LinkError> {
        let moment = loop {
            // Fails only without the sender, which is here.
            let _ = self.held.subscribe().wait_for(|held| !held).await;
            let moment = self.moment.write().await;
            if !*self.held.borrow() {
                break moment;
            }
        };
        let copying = Copying { stops: self, programs, _moment: moment };
        programs.stop()?;
        Ok(copying)
    }
}

/// Programs that are stopped while their files are copied.
pub(crate) struct Copying<'s, P: Programs> {
    stops: &'s Stops,
    programs: &'s P,
    _moment: RwLockWriteGuard<'s, ()>,
}

impl<P: Programs> Drop for Copying<'_, P> {
    fn drop(&mut self) {
        if !self.stops.is_paused() {
            // Fails if the machine has ended.
            let _ = self.programs.go_on();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// Whether they are stopped.
    #[derive(Default)]
    struct Bit(AtomicBool);

    impl Programs for Bit {
        fn stop(&self) -> Result<(), LinkError> {
            self.0.store(true, Ordering::SeqCst);
            Ok(())
        }

        fn go_on(&self) -> Result<(), LinkError> {
            self.0.store(false, Ordering::SeqCst);
            Ok(())
        }
    }

    impl Bit {
        fn is_stopped(&self) -> bool {
            self.0.load(Ordering::SeqCst)
        }
    }

    fn run(test: impl Future<Output = ()>) {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(test);
    }

    /// Lets the other tasks of this thread run until they wait.
    async fn settle() {
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
    }

    #[test]
    fn copy_stops_programs_and_continues_them_also_if_its_caller_leaves() {
        run(async {
            let (stops, bit) = (Stops::default(), Bit::default());
            let copying = stops.copying(&bit).await.unwrap();
            assert!(bit.is_stopped());
            drop(copying);
            assert!(!bit.is_stopped());
        });
    }

    #[test]
    fn copy_undoes_no_pause_and_no_hold_that_comes_while_it_runs() {
        for is_hold in [false, true] {
            run(async {
                let both = Arc::new((Stops::default(), Bit::default()));
                let copying = both.0.copying(&both.1).await.unwrap();
                let other = Arc::clone(&both);
                let stopping = tokio::spawn(async move {
                    match is_hold {
                        true => other.0.hold(&other.1).await,
                        false => other.0.pause(&other.1).await,
                    }
                });
                settle().await;
                assert!(!stopping.is_finished(), "it waits for the copy");
                drop(copying);
                stopping.await.unwrap().unwrap();
                assert!(both.1.is_stopped(), "hold: {is_hold}");
                assert_eq!(both.0.starting().await.is_some(), is_hold);
                both.0.resume(&both.1).await.unwrap();
                assert!(!both.1.is_stopped() && both.0.starting().await.is_some());
            });
        }
    }

    #[test]
    fn copy_of_paused_programs_leaves_them_paused() {
        run(async {
            let (stops, bit) = (Stops::default(), Bit::default());
            stops.pause(&bit).await.unwrap();
            drop(stops.copying(&bit).await.unwrap());
            assert!(bit.is_stopped());
        });
    }

    #[test]
    fn copy_waits_until_held_programs_go_on() {
        run(async {
            let both = Arc::new((Stops::default(), Bit::default()));
            both.0.hold(&both.1).await.unwrap();
            let other = Arc::clone(&both);
            let copy =
                tokio::spawn(async move { other.0.copying(&other.1).await.map(drop).unwrap() });
            settle().await;
            assert!(!copy.is_finished());
            both.0.resume(&both.1).await.unwrap();
            copy.await.unwrap();
            assert!(!both.1.is_stopped());
        });
    }
}
