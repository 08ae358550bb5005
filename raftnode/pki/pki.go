// Package pki makes and checks the certificates of a cluster: one CA, one role
// in each certificate, TLS 1.3 on both sides. A certificate of the same CA
// without the role that a listener asks for is refused by it.
package pki

import (
	"context"
	"crypto/tls"

	"google.golang.org/grpc"
)

// Role says what the holder of a certificate may do.
type Role string

const (
	// Controller may speak Raft, and every API.
	Controller Role = "controller"
	// Node may read and report its own wishes.
	Node Role = "node"
	// Admin may use the operators' API.
	Admin Role = "admin"
	// Viewer may read the operators' API.
	Viewer Role = "viewer"
)

// Identity is what a verified certificate says: role and name, in the URI SAN
// `spiffe://<cluster>/<role>/<name>`.
type Identity struct {
	Cluster string
	Role    Role
	Name    string
}

// Actor is the form that commands carry: `role/name`.
func (i Identity) Actor() string { return string(i.Role) + "/" + i.Name }

// Files names a key pair and its CA on disk. All are 0600 in 0700 folders;
// Load refuses them when others can read them.
type Files struct{ Cert, Key, CA string }

// Credentials are a loaded key pair with its CA, re-read when the files change.
type Credentials struct{ files Files }

// Load reads and checks the files. The error names the file and the remedy.
func Load(files Files) (*Credentials, error) { panic("pki: to be written") }

// Identity is the credentials' own.
func (c *Credentials) Identity() Identity { panic("pki: to be written") }

// Server is a configuration that asks for a client certificate with one of the
// roles, of the same CA and cluster, and refuses others in the handshake.
func (c *Credentials) Server(roles ...Role) *tls.Config { panic("pki: to be written") }

// Client is a configuration that accepts a server whose certificate has the
// role, whatever its address.
func (c *Credentials) Client(server Role) *tls.Config { panic("pki: to be written") }

// Peer is the identity that the TLS handshake of this RPC verified.
func Peer(ctx context.Context) (Identity, error) { panic("pki: to be written") }

// Allow is an interceptor pair that lets through only calls of the roles given
// for the longest matching prefix of the full method name; others get PERMISSION_DENIED.
func Allow(rules map[string][]Role) (grpc.UnaryServerInterceptor, grpc.StreamServerInterceptor) {
	panic("pki: to be written")
}
