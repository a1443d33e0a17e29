//! The policy language of Stockade.
