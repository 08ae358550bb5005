package isolated

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// usualValidity is of certificates that do not run out in a test.
const usualValidity = 24 * time.Hour

// pki is the folder of one certificate: a process reads its own only.
func (c *Cluster) pki(r role, name string) string { return c.dir("pki", string(r)+"-"+name) }

// makeCA makes the cluster's CA, and the operator's certificate that the command line looks for.
func (c *Cluster) makeCA(ctx context.Context) error {
	if res := c.view.Run(ctx, "ca", "make", "--ca-dir", c.dir("ca"), "--cluster", "isolated"); res.Code != 0 {
		return fmt.Errorf("make a CA: exit code %d: %s", res.Code, res.Stderr)
	}
	return c.issue(ctx, "admin", "dev", usualValidity)
}

// issue issues a certificate in place of the one that there is.
func (c *Cluster) issue(ctx context.Context, r role, name string, validity time.Duration) error {
	res := c.view.Run(ctx, "ca", "issue", "--ca-dir", c.dir("ca"), "--out", c.pki(r, name), "--role", string(r), "--name", name, "--validity", validity.String())
	if res.Code != 0 {
		return fmt.Errorf("issue a certificate for %s %s: exit code %d: %s", r, name, res.Code, res.Stderr)
	}
	return nil
}

// Issue gives the member a new certificate, which its process takes up by itself at its next handshake. It answers when the
// certificate runs out.
func (m *Member) Issue(ctx context.Context, validity time.Duration) (time.Time, error) {
	if err := m.cluster.issue(ctx, m.role, m.ID, validity); err != nil {
		return time.Time{}, err
	}
	cert, err := m.certificate()
	if err != nil {
		return time.Time{}, err
	}
	return cert.NotAfter, nil
}

// certificate is the one in the member's files.
func (m *Member) certificate() (*x509.Certificate, error) {
	text, err := os.ReadFile(filepath.Join(m.cluster.pki(m.role, m.ID), string(m.role)+"-"+m.ID+".crt"))
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("the certificate of %s is no PEM", m.ID)
	}
	return x509.ParseCertificate(block.Bytes)
}

// Presents tells whether a controller's process uses the certificate that is in its files, by a handshake with its API. The
// handshake fails later, for the lack of a client's certificate; by then the server has shown its own.
func (m *Member) Presents(ctx context.Context) (bool, error) {
	want, err := m.certificate()
	if err != nil {
		return false, err
	}
	conn, err := m.cluster.net.Dial(ctx, "tcp", m.api())
	if err != nil {
		return false, err
	}
	defer func() { _ = conn.Close() }() // nothing was sent
	shown := false
	client := tls.Client(conn, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}, //nolint:gosec // it only looks
		VerifyPeerCertificate: func(raw [][]byte, _ [][]*x509.Certificate) error {
			shown = len(raw) > 0 && string(raw[0]) == string(want.Raw)
			return nil
		}})
	if err := client.HandshakeContext(ctx); err != nil && !shown {
		return false, err
	}
	return shown, nil
}
