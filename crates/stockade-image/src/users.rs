//! The users of an image.

use serde::Serialize;

/// A user of an image that programs may run as.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ImageUser {
    /// The user id.
    pub user: u32,
    /// The group id.
    pub group: u32,
    /// The home, if the image has a line for the user.
    pub home: Option<String>,
}

/// The user as which the programs of a sandbox run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UserWanted<'w> {
    /// The ordinary user of the wall.
    #[default]
    Ordinary,
    /// The user of the image that the caller names.
    Named(&'w str),
    /// The USER of the image, if programs may run as it, and else the ordinary user.
    OfImage,
}

/// Why programs cannot run as a user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UserError {
    /// It is root.
    #[error("`{name}` is user 0, and no program in a sandbox is root")]
    Root {
        /// As it was written.
        name: String,
    },
    /// The image has no such user.
    #[error("the image has no user `{name}`")]
    Unknown {
        /// As it was written.
        name: String,
    },
    /// A sandbox has no such id.
    #[error("user {id} is outside of the 65536 ids of a sandbox")]
    TooHigh {
        /// The id.
        id: u64,
    },
}

impl UserError {
    /// What to do.
    pub fn remedy(&self) -> &'static str {
        match self {
            UserError::Root { .. } => "name another user, or leave --user out",
            UserError::Unknown { .. } => "name a user of the image's /etc/passwd, or a number",
            UserError::TooHigh { .. } => "use a number from 1 to 65533",
        }
    }
}

/// Finds a user by its name or number, in the text of the image's `/etc/passwd`.
pub fn user_in(passwd: &str, wanted: &str) -> Result<ImageUser, UserError> {
    let number = wanted.bytes().all(|byte| byte.is_ascii_digit()) && !wanted.is_empty();
    let number: Option<u64> = number.then(|| wanted.parse().unwrap_or(u64::MAX));
    let line = passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        let user: u64 = fields.nth(1)?.parse().ok()?;
        let group: u64 = fields.next()?.parse().ok()?;
        let home = fields.nth(1).filter(|home| home.starts_with('/')).map(str::to_owned);
        let is_wanted = match number {
            Some(number) => user == number,
            None => name == wanted,
        };
        is_wanted.then_some((user, group, home))
    });
    let (id, group, home) = match (line, number) {
        (Some(line), _) => line,
        (None, Some(number)) => (number, number, None),
        (None, None) => return Err(UserError::Unknown { name: wanted.to_owned() }),
    };
    let user = u32::try_from(id).ok().filter(|id| *id < 65_534);
    let user = user.ok_or(UserError::TooHigh { id })?;
    if user == 0 {
        return Err(UserError::Root { name: wanted.to_owned() });
    }
    // The group of root is not given to any program either.
    let group = u32::try_from(group).ok().filter(|group| (1..65_534).contains(group));
    Ok(ImageUser { user, group: group.unwrap_or(user), home })
}

/// Finds the USER of an image, which is `NAME` or `NAME:GROUP`. Root, a user that the image does not
/// have and an id that a sandbox does not have are no users for a program. The group is the one of
/// `/etc/passwd`, whatever the image names.
pub fn own_user_in(passwd: &str, image_user: &str) -> Option<ImageUser> {
    let name = image_user.split(':').next().unwrap_or_default();
    user_in(passwd, name).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/bash\ntoor:x:0:0::/:/bin/sh\nbroken\n\
                          agent:x:1000:1001:,,,:/home/agent:/bin/bash\nshift:x:1005:0::/:\n\
                          far:x:70000:70000::/:\n";

    #[test]
    fn user_is_found_by_name_or_number() {
        let home = Some("/home/agent".to_owned());
        let agent = ImageUser { user: 1000, group: 1001, home };
        assert_eq!(user_in(PASSWD, "agent"), Ok(agent.clone()));
        assert_eq!(user_in(PASSWD, "1000"), Ok(agent));
        let other = ImageUser { user: 77, group: 77, home: None };
        assert_eq!(user_in(PASSWD, "77"), Ok(other));
    }

    #[test]
    fn user_of_an_image_is_taken_unless_it_is_root_or_unknown() {
        let agent = user_in(PASSWD, "agent").ok();
        assert!(agent.is_some());
        for name in ["agent", "1000", "agent:agent", "1000:0"] {
            assert_eq!(own_user_in(PASSWD, name), agent, "{name}");
        }
        for name in ["", "root", "0", "0:1000", "toor", "nobody", "65534", "far", ":1000"] {
            assert_eq!(own_user_in(PASSWD, name), None, "{name}");
        }
    }

    #[test]
    fn root_is_refused_by_every_name_and_its_group_is_not_given() {
        for name in ["root", "toor", "0", "00"] {
            let error = user_in(PASSWD, name).unwrap_err();
            assert_eq!(error, UserError::Root { name: name.to_owned() });
        }
        assert_eq!(user_in(PASSWD, "shift").unwrap().group, 1005);
        for name in ["nobody", "", "-1", "broken", "agent "] {
            assert!(matches!(user_in(PASSWD, name), Err(UserError::Unknown { .. })), "{name}");
        }
        for name in ["far", "65536", "99999999999999999999999"] {
            assert!(matches!(user_in(PASSWD, name), Err(UserError::TooHigh { .. })), "{name}");
        }
    }
}
