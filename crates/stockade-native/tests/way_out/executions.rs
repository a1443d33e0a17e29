//! Many executions at once in one sandbox.

use stockade_provider::{ErrorKind, Provider};
use tokio::io::AsyncWriteExt;

use crate::support::{finish, native, request, runtime, start, try_start, way_out_can_be_made};

#[test]
fn nine_executions_run_at_once_in_one_sandbox_and_the_tenth_is_refused_by_name() {
    if !way_out_can_be_made() {
        return;
    }
    runtime().block_on(async {
        let provider = native().with_executions(9);
        let mut sandbox = provider.create(&request("{}", None)).await.unwrap();
        let mut running = Vec::new();
        for number in 0..9 {
            // All have the same name, and each its own code.
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
