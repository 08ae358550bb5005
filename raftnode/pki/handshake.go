package pki

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
)

// Server is a configuration that asks for a client certificate with one of the
// roles, of the same CA and cluster, and refuses others in the handshake.
//
// The chain is verified in VerifyConnection rather than by crypto/tls, so that
// the CA too is the one that is on disk when the handshake begins. There is no
// session resumption, so it is called for every connection.
func (c *Credentials) Server(roles ...Role) *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		NextProtos:             []string{"h2"},
		SessionTicketsDisabled: true,
		ClientAuth:             tls.RequireAnyClientCert,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return &c.currentMaterial().cert, nil
		},
		VerifyConnection: func(state tls.ConnectionState) error {
			return c.verifyPeer(state, x509.ExtKeyUsageClientAuth, roles)
		},
	}
}

// Client is a configuration that accepts a server whose certificate has the
// role, whatever its address. What crypto/tls would verify is verified in
// VerifyConnection, except for the address.
func (c *Credentials) Client(server Role) *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		NextProtos:         []string{"h2"},
		InsecureSkipVerify: true,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			own := c.currentMaterial()
			return &own.cert, own.checkExpiry(c.files)
		},
		VerifyConnection: func(state tls.ConnectionState) error {
			return c.verifyPeer(state, x509.ExtKeyUsageServerAuth, []Role{server})
		},
	}
}

// verifyPeer lets through peers of the own cluster that have one of the roles.
func (c *Credentials) verifyPeer(state tls.ConnectionState, usage x509.ExtKeyUsage, roles []Role) error {
	var chain [][]byte
	for _, cert := range state.PeerCertificates[min(1, len(state.PeerCertificates)):] {
		chain = append(chain, cert.Raw)
	}
	peer, err := verifyChain(c.currentMaterial().roots, state.PeerCertificates, chain, usage)
	if err != nil {
		return explainPeer(state.PeerCertificates, usage, err)
	}
	switch {
	case peer.Cluster != c.id.Cluster:
		return fmt.Errorf("the peer %s belongs to another cluster than %s", peer, c.id)
	case !slices.Contains(roles, peer.Role):
		return fmt.Errorf("the peer %s does not have the role that is needed here (%s)", peer, joinRoles(roles))
	}
	of, err := ReadCertificate(state.PeerCertificates[0])
	if err != nil {
		return err
	}
	return c.reasonRevoked(of)
}

// explainPeer words why a peer's certificate is not good.
func explainPeer(certs []*x509.Certificate, usage x509.ExtKeyUsage, err error) error {
	what := "the client's certificate"
	if usage == x509.ExtKeyUsageServerAuth {
		what = "the server's certificate"
	}
	if len(certs) > 0 {
		if expired := expiredError(what, certs[0], err); expired != nil {
			return expired
		}
	}
	return fmt.Errorf("verify the peer's certificate: %w", err)
}

// verifyChain checks the chain of the first certificate and returns the identity in it.
func verifyChain(roots *x509.CertPool, certs []*x509.Certificate, chain [][]byte, usage x509.ExtKeyUsage) (Identity, error) {
	if len(certs) == 0 {
		return Identity{}, errors.New("no certificate was presented")
	}
	intermediates := x509.NewCertPool()
	for _, raw := range chain {
		cert, err := x509.ParseCertificate(raw)
		if err != nil {
			return Identity{}, fmt.Errorf("parse the chain: %w", err)
		}
		intermediates.AddCert(cert)
	}
	options := x509.VerifyOptions{Roots: roots, Intermediates: intermediates, KeyUsages: []x509.ExtKeyUsage{usage}}
	if _, err := certs[0].Verify(options); err != nil {
		return Identity{}, err
	}
	if certs[0].IsCA {
		return Identity{}, errors.New("the certificate of a CA is not an identity")
	}
	return identityOf(certs[0])
}
