package pki

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"time"
)

const (
	caCert     = "ca.crt"
	caKey      = "ca.key"
	caValidity = 10 * 365 * 24 * time.Hour
	// backdate lets hosts whose clocks are a little behind accept a fresh certificate.
	backdate = 5 * time.Minute
)

// FilesIn names the files that Issue makes in a folder for a role and a name.
func FilesIn(dir string, role Role, name string) Files {
	base := filepath.Join(dir, string(role)+"-"+name)
	return Files{Cert: base + ".crt", Key: base + ".key", CA: filepath.Join(dir, caCert)}
}

// MakeCA makes the CA of a cluster: ca.crt and ca.key in a 0700 folder. It
// refuses to overwrite one: every certificate issued under it would be void.
func MakeCA(dir, cluster string) error {
	if !clusterPattern.MatchString(cluster) {
		return Identity{Cluster: cluster}.Check()
	}
	if err := makePrivateDir(dir); err != nil {
		return err
	}
	for _, name := range []string{caCert, caKey} {
		if _, err := os.Lstat(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("make a CA in %s: %s is there already; use it, or name another folder", dir, name)
		}
	}
	cert, key, err := newCACertificate(cluster)
	if err != nil {
		return fmt.Errorf("make a CA in %s: %w", dir, err)
	}
	if err := writePEM(filepath.Join(dir, caKey), "PRIVATE KEY", key); err != nil {
		return err
	}
	return writePEM(filepath.Join(dir, caCert), "CERTIFICATE", cert)
}

func newCACertificate(cluster string) (cert, key []byte, err error) {
	now := time.Now()
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: "holdfast CA", Organization: []string{cluster}},
		URIs:      []*url.URL{{Scheme: "spiffe", Host: cluster}},
		NotBefore: now.Add(-backdate), NotAfter: now.Add(caValidity),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		IsCA:     true, BasicConstraintsValid: true, MaxPathLenZero: true,
	}
	return signCertificate(template, nil)
}

// Issue makes a key pair for an identity and writes it with the CA's certificate into a
// 0700 folder, under the names of FilesIn. Other CAs that the folder's CA file names
// stay trusted: it is a bundle while a CA is replaced. An empty cluster is
// the CA's. Issuing again renews: running processes take up the new files by themselves.
func Issue(caDir, outDir string, id Identity, validity time.Duration) (Files, error) {
	ca, cluster, err := loadCA(caDir)
	if err != nil {
		return Files{}, err
	}
	if id.Cluster == "" {
		id.Cluster = cluster
	}
	if err := checkIssue(id, cluster, validity); err != nil {
		return Files{}, fmt.Errorf("issue a certificate with the CA in %s: %w", caDir, err)
	}
	cert, key, err := signCertificate(leafTemplate(id, validity, ca.Leaf), ca)
	if err != nil {
		return Files{}, fmt.Errorf("issue a certificate for %s: %w", id, err)
	}
	if err := makePrivateDir(outDir); err != nil {
		return Files{}, err
	}
	files := FilesIn(outDir, id.Role, id.Name)
	return files, errors.Join(
		addToBundle(files.CA, ca.Leaf),
		writePEM(files.Key, "PRIVATE KEY", key),
		writePEM(files.Cert, "CERTIFICATE", cert),
	)
}

// addToBundle has the bundle name the CA, beside those that it names already.
func addToBundle(bundle string, ca *x509.Certificate) error {
	content, err := os.ReadFile(bundle)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the CA bundle %s: %w", bundle, err)
	}
	all := [][]byte{ca.Raw}
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" && !bytes.Equal(block.Bytes, ca.Raw) {
			all = append(all, block.Bytes)
		}
	}
	return writePEM(bundle, "CERTIFICATE", all...)
}

func checkIssue(id Identity, cluster string, validity time.Duration) error {
	if id.Cluster != cluster {
		return fmt.Errorf("it is for cluster %q, not %q", cluster, id.Cluster)
	}
	if validity <= 0 {
		return fmt.Errorf("validity %s is not above zero", validity)
	}
	return id.Check()
}

// leafTemplate is what an identity's certificate says. Only controllers serve.
func leafTemplate(id Identity, validity time.Duration, ca *x509.Certificate) *x509.Certificate {
	now := time.Now()
	usage := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if id.Role == Controller {
		usage = append(usage, x509.ExtKeyUsageServerAuth)
	}
	end := now.Add(validity)
	if end.After(ca.NotAfter) {
		end = ca.NotAfter
	}
	return &x509.Certificate{
		Subject:   pkix.Name{CommonName: "holdfast " + string(id.Role)},
		URIs:      []*url.URL{id.uri()},
		NotBefore: now.Add(-backdate), NotAfter: end,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: usage, BasicConstraintsValid: true,
	}
}

// signCertificate makes a key and has it certified: by the CA, or by itself without one.
func signCertificate(template *x509.Certificate, ca *tls.Certificate) (cert, key []byte, err error) {
	privateKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make a key: %w", err)
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return nil, nil, fmt.Errorf("make a serial number: %w", err)
	}
	parent, signer := template, any(privateKey)
	if ca != nil {
		parent, signer = ca.Leaf, ca.PrivateKey
	}
	if cert, err = x509.CreateCertificate(rand.Reader, template, parent, privateKey.Public(), signer); err != nil {
		return nil, nil, fmt.Errorf("sign: %w", err)
	}
	key, err = x509.MarshalPKCS8PrivateKey(privateKey)
	return cert, key, err
}

func loadCA(dir string) (*tls.Certificate, string, error) {
	cert, err := readPrivate(filepath.Join(dir, caCert))
	if err != nil {
		return nil, "", fmt.Errorf("read the CA: %w", err)
	}
	key, err := readPrivate(filepath.Join(dir, caKey))
	if err != nil {
		return nil, "", fmt.Errorf("read the CA: %w", err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, "", fmt.Errorf("read the CA in %s: %w", dir, err)
	}
	if len(pair.Leaf.URIs) != 1 || !pair.Leaf.IsCA {
		return nil, "", fmt.Errorf("%s is not the certificate of a holdfast CA", filepath.Join(dir, caCert))
	}
	return &pair, pair.Leaf.URIs[0].Host, nil
}

func makePrivateDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make folder %s: %w", dir, err)
	}
	return checkPrivateDir(dir)
}

// writePEM replaces a file at once, so that no reader sees half of it.
func writePEM(path, kind string, blocks ...[]byte) (err error) {
	temp, err := os.CreateTemp(filepath.Dir(path), ".new-*") // 0600
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("write %s: %w", path, errors.Join(err, os.Remove(temp.Name())))
		}
	}()
	for _, der := range blocks {
		err = errors.Join(err, pem.Encode(temp, &pem.Block{Type: kind, Bytes: der}))
	}
	if err = errors.Join(err, temp.Sync(), temp.Close()); err != nil {
		return err
	}
	return os.Rename(temp.Name(), path)
}
