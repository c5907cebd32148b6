// Package access says who may do what: it knows the bearer tokens of the service
// and reads them, and the certificates it is reached with, again when their files
// change.
//
// A Guard holds the tokens of a file, and one for administration from the
// configuration. The file has the SHA-256 of each token and not the token, so who
// reads it can use none. A plain hash is enough: Generate's tokens are 32 random
// bytes, which nobody finds by trying, however fast the hash is. What makes slow
// hashes and salts necessary is that people choose passwords; here nobody chooses.
//
// A token of the role RoleGet is for IDs, one of RoleAdmin for administration; both
// may read the pages of monitoring.
package access
