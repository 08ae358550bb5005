package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Pin is the SHA-256 of a CA's public key (SubjectPublicKeyInfo): who knows it tells that CA from all others.
type Pin [sha256.Size]byte

// PinOf is the pin of a CA's certificate.
func PinOf(ca *x509.Certificate) Pin { return sha256.Sum256(ca.RawSubjectPublicKeyInfo) }

// IssuerPin is the pin of the CA that signed the certificate that is in use.
func (c *Credentials) IssuerPin() (Pin, error) {
	own := c.currentMaterial()
	for _, ca := range own.cas {
		if own.cert.Leaf.CheckSignatureFrom(ca) == nil {
			return PinOf(ca), nil
		}
	}
	return Pin{}, fmt.Errorf("no CA that %s names signed certificate %s itself", c.files.CA, c.files.Cert)
}

// EnrollServer is a configuration of a listener for processes that have no certificate yet: it asks for none, and shows
// the CAs that this process trusts, so that a client can find the one whose pin it has.
func (c *Credentials) EnrollServer() *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		NextProtos:             []string{"h2"},
		SessionTicketsDisabled: true,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			own := c.currentMaterial()
			shown := own.cert
			shown.Certificate = slices.Clone(own.cert.Certificate[:1])
			for _, ca := range own.cas {
				shown.Certificate = append(shown.Certificate, ca.Raw)
			}
			return &shown, own.checkExpiry(c.files)
		},
	}
}

// PinnedClient is a configuration that accepts a controller of the cluster whose certificate the CA with the pin
// signed, whatever its address. It has no certificate itself.
func PinnedClient(pin Pin, cluster string) *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		NextProtos:         []string{"h2"},
		InsecureSkipVerify: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			return verifyPinned(state.PeerCertificates, pin, cluster)
		},
	}
}

func verifyPinned(certs []*x509.Certificate, pin Pin, cluster string) error {
	roots := x509.NewCertPool()
	found := false
	for _, ca := range certs[min(1, len(certs)):] {
		if ca.IsCA && PinOf(ca) == pin {
			roots.AddCert(ca)
			found = true
		}
	}
	if !found {
		return errors.New("the server does not show the CA that the token names: it is of another cluster, or its CA was replaced since the token was created")
	}
	peer, err := verifyChain(roots, certs, nil, x509.ExtKeyUsageServerAuth)
	switch {
	case err != nil:
		return explainPeer(certs, x509.ExtKeyUsageServerAuth, err)
	case peer.Cluster != cluster || peer.Role != Controller:
		return fmt.Errorf("the peer %s is no controller of cluster %s", peer, cluster)
	}
	return nil
}

// ReadRequest checks that who made a certificate request (PKCS #10, DER) has its key, and returns the public key with
// its SHA-256. Nothing else of it counts: what a certificate says is not for its holder to choose.
func ReadRequest(der []byte) (*ecdsa.PublicKey, [sha256.Size]byte, error) {
	none := [sha256.Size]byte{}
	req, err := x509.ParseCertificateRequest(der)
	if err != nil {
		return nil, none, fmt.Errorf("read the certificate request: %w", err)
	}
	public, ok := req.PublicKey.(*ecdsa.PublicKey)
	if !ok || public.Curve != elliptic.P256() {
		return nil, none, errors.New("the key of the certificate request is not an ECDSA key on P-256")
	}
	if err := req.CheckSignature(); err != nil { // after the kind of key: to check a long RSA key takes long
		return nil, none, fmt.Errorf("check the certificate request's signature: %w", err)
	}
	return public, sha256.Sum256(req.RawSubjectPublicKeyInfo), nil
}

// MakeRequest makes a certificate request for the key in a file. The key is made first where it is not there: it is
// kept, so that a request that was interrupted is made again for the same key.
func MakeRequest(keyFile string) ([]byte, error) {
	key, err := keyIn(keyFile)
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		return nil, fmt.Errorf("make a certificate request for %s: %w", keyFile, err)
	}
	return der, nil
}

func keyIn(path string) (*ecdsa.PrivateKey, error) {
	if err := makePrivateDir(filepath.Dir(path)); err != nil {
		return nil, err
	}
	if _, err := os.Lstat(path); err == nil {
		if err := syncDir(filepath.Dir(path)); err != nil { // who made it may have been killed before it was durable
			return nil, fmt.Errorf("keep the key %s: %w", path, err)
		}
		return readKey(path)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("look at %s: %w", path, err)
	}
	if err := removeUnfinished(filepath.Dir(path)); err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return key, writePEM(path, "PRIVATE KEY", der)
}

// Install writes what an enrolment brought beside the key: the bundle first and the certificate last, so that a
// certificate that is there can be used. It refuses one that is not for the key or not for the identity.
func Install(files Files, id Identity, cert []byte, bundle [][]byte) error {
	cas, err := checkIssued(files, id, cert, bundle)
	if err != nil {
		return fmt.Errorf("install the certificate of %s: %w", id.Actor(), err)
	}
	for _, path := range []string{files.CA, files.Cert} {
		if err := makePrivateDir(filepath.Dir(path)); err != nil {
			return err
		}
	}
	if err := addToBundle(files.CA, cas...); err != nil {
		return err
	}
	return writePEM(files.Cert, "CERTIFICATE", cert)
}

func checkIssued(files Files, id Identity, cert []byte, bundle [][]byte) (cas []*x509.Certificate, err error) {
	leaf, err := x509.ParseCertificate(cert)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	for _, der := range bundle {
		ca, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, err
		}
		roots.AddCert(ca)
		cas = append(cas, ca)
	}
	got, err := verifyChain(roots, []*x509.Certificate{leaf}, nil, x509.ExtKeyUsageAny)
	if err != nil {
		return nil, err
	}
	key, err := readKey(files.Key)
	switch {
	case err != nil:
		return nil, err
	case got != id:
		return nil, fmt.Errorf("it is for %s", got)
	case !key.PublicKey.Equal(leaf.PublicKey):
		return nil, fmt.Errorf("it is for another key than the one in %s", files.Key)
	}
	return cas, nil
}

// Installed is the certificate in a file, whoever signed it; ok is false where the file is not there.
func Installed(certFile string) (cert Certificate, ok bool, err error) {
	content, err := readPrivate(certFile)
	if errors.Is(err, fs.ErrNotExist) {
		return Certificate{}, false, nil
	}
	if err != nil {
		return Certificate{}, false, err
	}
	blocks := certificateBlocks(content)
	if len(blocks) == 0 {
		return Certificate{}, false, fmt.Errorf("%s holds no PEM certificate", certFile)
	}
	leaf, err := x509.ParseCertificate(blocks[0].Bytes)
	if err != nil {
		return Certificate{}, false, fmt.Errorf("read %s: %w", certFile, err)
	}
	if cert, err = ReadCertificate(leaf); err != nil {
		return Certificate{}, false, fmt.Errorf("%s: %w", certFile, err)
	}
	return cert, true, nil
}
