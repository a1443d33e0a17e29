//! slice
use std::{path::Path, sync::Arc, time::Instant};
use stockade_policy::Policy;
use stockade_provider::*;
use tokio::io::AsyncReadExt;
#[expect(clippy::print_stdout, reason = "x")]
fn main() {
    let argv: Vec<String> = std::env::args().skip(1).collect();
    let start = Instant::now();
    let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("rt");
    let p = stockade_native::NativeProvider::new();
    let policy = Arc::new(Policy::parse_str("t", "{}", Path::new("/")).expect("p"));
    let t1 = start.elapsed();
    rt.block_on(async {
        let sur = Surroundings::from_variables(|n| std::env::var_os(n), std::env::current_dir().expect("cwd"), rustix::process::geteuid().as_raw());
        let req = SandboxRequest { policy, root: Root::Standard, entry: Entry::Program(argv[0].clone()), surroundings: sur };
        let mut sb = match p.create(&req).await { Ok(s) => s, Err(e) => { println!("ERR {e} {:?} {:?}", e.remedy(), std::error::Error::source(&e).map(|s| s.to_string())); return } };
        let t2 = start.elapsed();
        let mut run = sb.start(Execution { program: Program::Command { argv }, environment: vec![] }).await.expect("start");
        drop(run.stdin);
        let mut out = String::new();
        let (mut so, mut se) = (run.stdout, run.stderr);
        let mut err = String::new();
        let _ = tokio::join!(so.read_to_string(&mut out), se.read_to_string(&mut err));
        let end = run.end.await;
        let t3 = start.elapsed();
        println!("{out}{err}{end:?} {:?}", sb.observe());
        println!("setup {t1:?} created {t2:?} ended {t3:?}");
        if std::env::var_os("WAIT").is_some() { println!("{:?}", sb.end().await.map_err(|e| e.to_string())); println!("gone {:?}", start.elapsed()); }
    });
}
