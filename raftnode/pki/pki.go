// Package pki makes and checks the certificates of a cluster: one CA, one role
// in each certificate, TLS 1.3 on both sides. A certificate of the same CA
// without the role that a listener asks for is refused by it.
package pki

import (
	"crypto/x509"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Role says what the holder of a certificate may do.
type Role string

const (
	// Controller may speak Raft, and every API.
	Controller Role = "controller"
	// Node may read its desired objects and report on them.
	Node Role = "node"
	// Admin may use all of the operators' API.
	Admin Role = "admin"
	// Operator may use what of the operators' API can be undone.
	Operator Role = "operator"
	// Viewer may read the operators' API.
	Viewer Role = "viewer"
)

var roles = []Role{Controller, Node, Admin, Operator, Viewer}

// Roles are all roles.
func Roles() []Role { return slices.Clone(roles) }

// Identity is what a verified certificate says: role and name, in the URI SAN
// `spiffe://<cluster>/<role>/<name>`.
type Identity struct {
	Cluster string
	Role    Role
	Name    string
}

// Actor is the form that commands carry: `role/name`.
func (i Identity) Actor() string { return string(i.Role) + "/" + i.Name }

// String is the URI as it stands in the certificate.
func (i Identity) String() string { return i.uri().String() }

func (i Identity) uri() *url.URL {
	return &url.URL{Scheme: "spiffe", Host: i.Cluster, Path: "/" + i.Actor()}
}

var (
	clusterPattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$`)
	namePattern    = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?$`)
)

// Check validates that the identity can be put in a certificate.
func (i Identity) Check() error {
	switch {
	case !clusterPattern.MatchString(i.Cluster):
		return fmt.Errorf("cluster name %q is not made of lower case letters, digits, dots and dashes (63 at most)", i.Cluster)
	case !slices.Contains(roles, i.Role):
		return fmt.Errorf("role %q is none of %s", i.Role, joinRoles(roles))
	case !namePattern.MatchString(i.Name):
		return fmt.Errorf("name %q is not made of letters, digits, dots, underscores and dashes (253 at most)", i.Name)
	}
	return nil
}

// identityOf reads the identity of a certificate. It is to be trusted only after the chain was verified.
func identityOf(cert *x509.Certificate) (Identity, error) {
	if len(cert.URIs) != 1 {
		return Identity{}, fmt.Errorf("certificate has %d URI names where one of the form spiffe://cluster/role/name is needed", len(cert.URIs))
	}
	uri := cert.URIs[0]
	role, name, _ := strings.Cut(strings.TrimPrefix(uri.Path, "/"), "/")
	id := Identity{Cluster: uri.Host, Role: Role(role), Name: name}
	if uri.String() != id.String() {
		return Identity{}, fmt.Errorf("certificate's URI name %q is not of the form spiffe://cluster/role/name", uri)
	}
	if err := id.Check(); err != nil {
		return Identity{}, fmt.Errorf("certificate's URI name %q: %w", uri, err)
	}
	return id, nil
}

func joinRoles(roles []Role) string {
	names := make([]string, len(roles))
	for i, r := range roles {
		names[i] = string(r)
	}
	return strings.Join(names, ", ")
}
