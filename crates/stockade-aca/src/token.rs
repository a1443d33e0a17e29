//! Tokens: where they come from, and how long they are kept.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_core::future::BoxFuture;
use tokio::sync::Mutex;

use crate::{AcaError, Secret};

/// The audience of the data plane.
pub(crate) const DATA_SCOPE: &str = "https://dynamicsessions.io/.default";
/// The audience of Azure Resource Manager.
pub(crate) const ARM_SCOPE: &str = "https://management.azure.com/.default";

/// A token is replaced this long before it expires.
const MARGIN: Duration = Duration::from_secs(300);

/// A bearer token.
#[derive(Clone, Debug)]
pub struct Token {
    /// The token.
    pub secret: Secret,
    /// How long it is valid.
    pub valid: Duration,
}

/// Gives tokens.
pub trait TokenSource: Send + Sync + fmt::Debug {
    /// A token for a scope. Called again when the last one is about to expire, or was refused. The
    /// error must not contain a credential.
    fn token<'a>(&'a self, scope: &'a str) -> BoxFuture<'a, Result<Token, AcaError>>;
}

/// Tokens that are kept until they are about to expire.
#[derive(Debug)]
pub(crate) struct Tokens {
    source: Arc<dyn TokenSource>,
    kept: Mutex<HashMap<String, (Secret, Instant)>>,
}

impl Tokens {
    pub(crate) fn new(source: Arc<dyn TokenSource>) -> Tokens {
        Tokens { source, kept: Mutex::default() }
    }

    /// A valid token. Concurrent callers wait for one request.
    pub(crate) async fn get(&self, scope: &str) -> Result<Secret, AcaError> {
        let mut kept = self.kept.lock().await;
        if let Some((secret, until)) = kept.get(scope)
            && Instant::now() < *until
        {
            return Ok(secret.clone());
        }
        let Token { secret, valid } = self.source.token(scope).await?;
        // A short token is used for half of its time.
        let used = valid.saturating_sub(MARGIN).max(valid / 2);
        let until = Instant::now() + used.min(Duration::from_secs(24 * 3600));
        kept.insert(scope.to_owned(), (secret.clone(), until));
        Ok(secret)
    }

    /// Forgets a token that the service refused.
    pub(crate) async fn refused(&self, scope: &str, token: &Secret) {
        let mut kept = self.kept.lock().await;
        if kept.get(scope).is_some_and(|(secret, _)| secret == token) {
            kept.remove(scope);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[derive(Debug)]
    struct Counting(AtomicU64, Duration);

    impl TokenSource for Counting {
        fn token<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Token, AcaError>> {
            let number = self.0.fetch_add(1, Ordering::SeqCst);
            let token = Token { secret: Secret::new(number.to_string()), valid: self.1 };
            Box::pin(async { Ok(token) })
        }
    }

    fn tokens(valid: Duration) -> Tokens {
        Tokens::new(Arc::new(Counting(AtomicU64::new(0), valid)))
    }

    #[tokio::test]
    async fn token_is_kept_per_scope_until_it_expires_or_is_refused() {
        let kept = tokens(Duration::from_secs(3600));
        let first = kept.get("a").await.unwrap();
        assert_eq!(kept.get("a").await.unwrap(), first);
        assert_ne!(kept.get("b").await.unwrap(), first);
        kept.refused("a", &Secret::new("another")).await;
        assert_eq!(kept.get("a").await.unwrap(), first);
        kept.refused("a", &first).await;
        assert_ne!(kept.get("a").await.unwrap(), first);
        let expired = tokens(Duration::ZERO);
        let first = expired.get("a").await.unwrap();
        assert_ne!(expired.get("a").await.unwrap(), first);
    }
}
