//! Concurrent executions in one sandbox.

use stockade_provider::{ErrorKind, Provider};
use tokio::io::AsyncWriteExt;

use crate::support::{egress_can_be_built, finish, native, request, runtime, start, try_start};

#[test]
fn tenth_concurrent_execution_is_refused_with_the_limit() {
    if !egress_can_be_built() {
        return;
    }
    runtime().block_on(async {
        let provider = native().with_executions(9);
        let mut sandbox = provider.create(&request("{}", None)).await.unwrap();
        let mut running = Vec::new();
        for number in 0..9 {
            // All use the same file name, and each has its own code.
            let script = format!("print({number}, sys.stdin.readline().strip())");
            running.push(start(&mut sandbox, &script).await);
        }
        let refused = try_start(&*sandbox, "").await.map(|_| ()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Busy);
        assert_eq!(refused.to_string(), "too many executions, at most 9");
        for (number, one) in running.iter_mut().enumerate() {
            one.stdin.write_all(format!("input {number}\n").as_bytes()).await.unwrap();
        }
        for (number, one) in running.into_iter().enumerate() {
            assert_eq!(finish(one).await, format!("{number} input {number}\n"));
        }
        assert_eq!(finish(start(&mut sandbox, "print('next')").await).await, "next\n");
    });
}
