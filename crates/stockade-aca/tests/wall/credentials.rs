//! Every kind of credential gives a token, and none of them is ever shown.

use std::os::unix::fs::PermissionsExt;

use stockade_aca::AcaOptions;
use stockade_azure_double::Double;
use stockade_provider::chain;

use crate::support::{can_run, code, count, create, options_from, refusal, run};

/// Runs a program with variables, and returns everything that could show a secret.
async fn works(double: &Double, variables: Vec<(String, String)>) {
    let options = options_from([double.places(), variables].concat());
    let shown = format!("{options:?}");
    let sandbox = create(&options, "{}").await.expect("the double answers as asked");
    assert_eq!(run(sandbox.as_ref(), code("print(1)")).await.output(), "1\n");
    sandbox.end().await.expect("the double answers as asked");
    for secret in double.secrets() {
        assert!(!shown.contains(&secret), "{shown}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn client_secret_federated_token_and_identity_of_the_machine_give_tokens() {
    if !can_run() {
        return;
    }
    let double = Double::start().expect("the double answers as asked");
    let scratch = tempfile::tempdir().expect("the double answers as asked");
    works(&double, double.variables()).await;
    works(
        &double,
        double.federated(&scratch.path().join("token")).expect("the double answers as asked"),
    )
    .await;
    works(&double, double.machine_identity()).await;
    let metadata = ("AZURE_POD_IDENTITY_AUTHORITY_HOST".to_owned(), double.identity_endpoint());
    works(&double, vec![metadata]).await;
    let tokens = |path: &str| count(&double, "POST", path) + count(&double, "GET", path);
    assert_eq!(tokens("/oauth2/v2.0/token"), 2);
    assert_eq!(tokens("/msi/token"), 1);
    assert_eq!(tokens("/metadata/identity/oauth2/token"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn command_az_gives_a_token_without_a_shell() {
    if !can_run() {
        return;
    }
    let double = Double::start().expect("the double answers as asked");
    let scratch = tempfile::tempdir().expect("the double answers as asked");
    let (program, seen) = (scratch.path().join("az"), scratch.path().join("seen"));
    let token = double.data_token();
    let script = format!(
        "#!/bin/sh\nprintf '%s\\n' \"$@\" > {}\n\
         echo '{{\"accessToken\": \"{token}\", \"expires_on\": 9999999999}}'\n",
        seen.display()
    );
    std::fs::write(&program, script).expect("the double answers as asked");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755))
        .expect("the double answers as asked");
    let path = ("PATH".to_owned(), scratch.path().display().to_string());
    let kind = ("AZURE_TOKEN_CREDENTIALS".to_owned(), "dev".to_owned());
    works(&double, vec![path, kind]).await;
    let words = std::fs::read_to_string(seen).expect("the double answers as asked");
    let expected =
        "account\nget-access-token\n--output\njson\n--scope\nhttps://dynamicsessions.io/.default\n";
    assert_eq!(words, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_tokens_are_renewed_in_the_middle_of_a_session() {
    if !can_run() {
        return;
    }
    let double = Double::start().expect("the double answers as asked");
    let sandbox =
        create(&options_from(double.variables()), "{}").await.expect("the double answers as asked");
    double.withdraw_tokens();
    assert_eq!(run(sandbox.as_ref(), code("print(1)")).await.output(), "1\n");
    assert_eq!(count(&double, "POST", "/oauth2/v2.0/token"), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_credential_names_every_kind_that_was_tried() {
    if !can_run() {
        return;
    }
    let double = Double::start().expect("the double answers as asked");
    let kinds = ["EnvironmentCredential", "WorkloadIdentityCredential", "AzureCliCredential"];
    for kind in kinds {
        let chosen = ("AZURE_TOKEN_CREDENTIALS".to_owned(), kind.to_owned());
        let error = refusal(&options_from([double.places(), vec![chosen]].concat()), "{}").await;
        assert!(error.contains(&format!("{kind}: ")), "{error}");
    }
    let chosen = ("AZURE_TOKEN_CREDENTIALS".to_owned(), "Nonsense".to_owned());
    let error = refusal(&options_from([double.places(), vec![chosen]].concat()), "{}").await;
    assert!(error.contains("names no kind of credential"), "{error}");
    assert_eq!(double.log(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn error_of_the_service_shows_no_token() {
    if !can_run() {
        return;
    }
    let double = Double::start().expect("the double answers as asked");
    let options = options_from(double.variables());
    let wrong = AcaOptions { sandbox_group: Some("other".to_owned()), ..options };
    let error = create(&wrong, "{}").await.err().expect("the double answers as asked");
    let shown = format!("{} {error:?} {:?}", chain(&error), error.remedy());
    for secret in double.secrets() {
        assert!(!shown.contains(&secret), "{shown}");
    }
}
