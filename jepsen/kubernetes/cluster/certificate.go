package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// authority signs the certificates of a cluster's programs.
type authority struct {
	dir  string // where its certificates are written
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// subject is whom a certificate is for: to the API server its name is the user's, its groups the user's.
type subject struct {
	name   string
	groups []string
	hosts  []string // DNS names and addresses it may serve under
}

// newAuthority makes one and writes its certificate and key, as NAME.crt and NAME.key.
func newAuthority(dir, name string) (*authority, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	template := template(subject{name: name})
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage |= x509.KeyUsageCertSign
	a := &authority{dir: dir, cert: template}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	a.key = key
	if err := a.write(name, template, key); err != nil {
		return nil, err
	}
	content, err := os.ReadFile(a.file(name + ".crt"))
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(content)
	a.cert, err = x509.ParseCertificate(block.Bytes)
	return a, err
}

// issue writes a certificate and its key, as FILE.crt and FILE.key.
func (a *authority) issue(file string, s subject) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	if err := a.write(file, template(s), key); err != nil {
		return fmt.Errorf("issue a certificate for %s: %w", s.name, err)
	}
	return nil
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

func (a *authority) write(file string, template *x509.Certificate, key *ecdsa.PrivateKey) error {
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return err
	}
	return errors.Join(a.writePEM(file+".crt", "CERTIFICATE", der, 0o644), a.writeKey(file+".key", key))
}

// writeKey writes a key; its file is also what the API server checks tokens of service accounts with.
func (a *authority) writeKey(file string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return a.writePEM(file, "EC PRIVATE KEY", der, 0o600)
}

func (a *authority) writePEM(file, kind string, der []byte, mode os.FileMode) error {
	return os.WriteFile(a.file(file), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), mode)
}

func template(s subject) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)) // never fails
	t := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: s.name, Organization: s.groups},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().AddDate(1, 0, 0),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, h := range s.hosts {
		if ip := net.ParseIP(h); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else {
			t.DNSNames = append(t.DNSNames, h)
		}
	}
	return t
}
