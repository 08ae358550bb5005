package pki

import (
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

// MakeCA makes the CA of a cluster: ca.crt and ca.key in a 0700 folder. It refuses to overwrite one: every certificate
// issued under it would be void. A key without a certificate is of a call that was interrupted, which goes on with it.
func MakeCA(dir, cluster string) error {
	if !clusterPattern.MatchString(cluster) {
		return Identity{Cluster: cluster}.Check()
	}
	if err := makePrivateDir(dir); err != nil {
		return err
	}
	if _, err := os.Lstat(filepath.Join(dir, caCert)); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("make a CA in %s: %s is there already; use it, or name another folder", dir, caCert)
	}
	key, err := makeCAKey(filepath.Join(dir, caKey))
	if err != nil {
		return fmt.Errorf("make a CA in %s: %w", dir, err)
	}
	cert, _, err := newCACertificate(cluster, key)
	if err != nil {
		return fmt.Errorf("make a CA in %s: %w", dir, err)
	}
	return writePEM(filepath.Join(dir, caCert), "CERTIFICATE", cert)
}

// makeCAKey returns the key that is there, else a new one.
func makeCAKey(path string) (*ecdsa.PrivateKey, error) {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return readKey(path)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return key, writePEM(path, "PRIVATE KEY", der)
}

func newCACertificate(cluster string, privateKey *ecdsa.PrivateKey) (cert, key []byte, err error) {
	now := time.Now()
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: "holdfast CA", Organization: []string{cluster}},
		URIs:      []*url.URL{{Scheme: "spiffe", Host: cluster}},
		NotBefore: now.Add(-backdate), NotAfter: now.Add(caValidity),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		IsCA:     true, BasicConstraintsValid: true, MaxPathLenZero: true,
	}
	if cert, err = certify(template, privateKey.Public(), template, privateKey); err != nil {
		return nil, nil, err
	}
	key, err = x509.MarshalPKCS8PrivateKey(privateKey)
	return cert, key, err
}

// Issue makes a key pair for an identity and writes it with the CA's certificate into a
// 0700 folder, under the names of FilesIn. Other CAs that the folder's CA file names
// stay trusted: it is a bundle while a CA is replaced. An empty cluster is
// the CA's. Issuing again renews: running processes take up the new files by themselves.
func Issue(caDir, outDir string, id Identity, validity time.Duration) (Files, error) {
	ca, err := loadCA(caDir)
	if err != nil {
		return Files{}, err
	}
	return ca.issue("the CA in "+caDir, outDir, id, validity)
}

// issue makes the files of Issue; named is the CA in errors.
func (i *issuer) issue(named, outDir string, id Identity, validity time.Duration) (Files, error) {
	if id.Cluster == "" {
		id.Cluster = i.cluster
	}
	if err := checkIssue(id, i.cluster, validity); err != nil {
		return Files{}, fmt.Errorf("issue a certificate with %s: %w", named, err)
	}
	cert, key, err := signCertificate(leafTemplate(id, validity, i.Leaf), &i.Certificate)
	if err != nil {
		return Files{}, fmt.Errorf("issue a certificate for %s: %w", id, err)
	}
	if err := makePrivateDir(outDir); err != nil {
		return Files{}, err
	}
	files := FilesIn(outDir, id.Role, id.Name)
	if err := addToBundle(files.CA, i.all...); err != nil {
		return Files{}, err
	}
	return files, replacePair(files, cert, key)
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
		Subject:   pkix.Name{CommonName: subjectOf(id.Role)},
		URIs:      []*url.URL{id.uri()},
		NotBefore: now.Add(-backdate), NotAfter: end,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: usage, BasicConstraintsValid: true,
	}
}

// signCertificate makes a key and has it certified by the CA.
func signCertificate(template *x509.Certificate, ca *tls.Certificate) (cert, key []byte, err error) {
	privateKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make a key: %w", err)
	}
	if cert, err = certify(template, privateKey.Public(), ca.Leaf, ca.PrivateKey); err != nil {
		return nil, nil, err
	}
	key, err = x509.MarshalPKCS8PrivateKey(privateKey)
	return cert, key, err
}

// certify signs what the template says of a public key. Without a serial number it draws one.
func certify(template *x509.Certificate, public any, parent *x509.Certificate, signer any) (cert []byte, err error) {
	if template.SerialNumber == nil {
		if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
			return nil, fmt.Errorf("make a serial number: %w", err)
		}
	}
	if cert, err = x509.CreateCertificate(rand.Reader, template, parent, public, signer); err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	return cert, nil
}

func makePrivateDir(dir string) error {
	if isMount(dir) {
		return fmt.Errorf("write into %s: a Secret is mounted there, which nobody can write to: name another folder", dir)
	}
	_, err := os.Lstat(dir)
	isNew := errors.Is(err, fs.ErrNotExist)
	if err = os.MkdirAll(dir, 0o700); err == nil && isNew {
		err = syncDir(filepath.Dir(filepath.Clean(dir)))
	}
	if err != nil {
		return fmt.Errorf("make folder %s: %w", dir, err)
	}
	return checkPrivateDir(dir)
}

// writePEM replaces a file at once, so that no reader sees half of it.
func writePEM(path, kind string, blocks ...[]byte) (err error) {
	temp, err := os.CreateTemp(filepath.Dir(path), tempPrefix+"*") // 0600
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(temp.Name())
			err = fmt.Errorf("write %s: %w", path, err)
		}
	}()
	for _, der := range blocks {
		err = errors.Join(err, pem.Encode(temp, &pem.Block{Type: kind, Bytes: der}))
	}
	if err = errors.Join(err, temp.Sync(), temp.Close()); err != nil {
		return err
	}
	return moveFile(temp.Name(), path)
}

// tempPrefix begins the names of files that are being written.
const tempPrefix = ".new-"

// moveFile replaces a file by another one at once, and returns when that outlives a loss of power: what follows may rely on it.
func moveFile(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	if err := syncDir(filepath.Dir(to)); err != nil || afterWrite == nil {
		return err
	}
	return afterWrite(to)
}

// syncDir makes the names in a folder durable.
var syncDir = func(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// afterWrite lets a test end a verb behind each file that it wrote, as a kill would.
var afterWrite func(path string) error
