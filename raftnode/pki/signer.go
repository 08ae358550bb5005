package pki

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"time"
)

// Signer signs, with the CA in a folder, for keys that their holders made. The folder is read each time: a CA that
// was rotated is taken up.
type Signer struct{ dir, cluster string }

// NewSigner checks that the folder has the key of the cluster's CA.
func NewSigner(dir, cluster string) (*Signer, error) {
	ca, err := loadCA(dir)
	if err != nil {
		return nil, err
	}
	if ca.cluster != cluster {
		return nil, fmt.Errorf("the CA in %s is that of cluster %q, not of %q", dir, ca.cluster, cluster)
	}
	return &Signer{dir: dir, cluster: cluster}, nil
}

// Signs tells whether the pin is that of the CA that signs. The error is one of reading the folder.
func (s *Signer) Signs(pin []byte) (bool, error) {
	ca, err := loadCA(s.dir)
	if err != nil {
		return false, err
	}
	return ca.hasPin(pin), nil
}

// Pin is that of the CA that signs.
func (s *Signer) Pin() (Pin, error) {
	ca, err := loadCA(s.dir)
	if err != nil {
		return Pin{}, err
	}
	return PinOf(ca.Leaf), nil
}

func (i *issuer) hasPin(pin []byte) bool {
	own := PinOf(i.Leaf)
	return bytes.Equal(own[:], pin)
}

// Order is what a certificate is to say. The same order again gives the same certificate, but for the signature.
type Order struct {
	Identity
	Public   *ecdsa.PublicKey
	Serial   *big.Int // above zero, of at most 127 bits
	Issued   time.Time
	Validity time.Duration
}

// Issued is a certificate with the CAs that its holder is to trust, in DER.
type Issued struct {
	Cert   []byte
	Bundle [][]byte
	ca     *issuer
}

// Sign makes a certificate, by the CA with the pin; another one that signs now is an error.
func (s *Signer) Sign(o *Order, pin []byte) (*Issued, error) {
	ca, err := loadCA(s.dir)
	switch {
	case err != nil:
		return nil, err
	case !ca.hasPin(pin):
		return nil, fmt.Errorf("issue a certificate with the CA in %s: it was replaced just now", s.dir)
	}
	if err := checkIssue(o.Identity, ca.cluster, o.Validity); err != nil {
		return nil, fmt.Errorf("issue a certificate with the CA in %s: %w", s.dir, err)
	}
	out := &Issued{ca: ca}
	if out.Cert, err = certify(o.template(ca.Leaf), o.Public, ca.Leaf, ca.PrivateKey); err != nil {
		return nil, fmt.Errorf("issue a certificate for %s: %w", o.Identity, err)
	}
	for _, of := range ca.all {
		out.Bundle = append(out.Bundle, of.Raw)
	}
	return out, nil
}

func (o *Order) template(ca *x509.Certificate) *x509.Certificate {
	t := leafTemplate(o.Identity, o.Validity, ca)
	t.SerialNumber, t.NotBefore, t.NotAfter = o.Serial, o.Issued.Add(-backdate), o.Issued.Add(o.Validity)
	if t.NotAfter.After(ca.NotAfter) {
		t.NotAfter = ca.NotAfter
	}
	return t
}

// Attest signs a text with the key of the CA that made the certificate. The text begins with what it is for, as no
// certificate does.
func (i *Issued) Attest(text []byte) ([]byte, error) {
	key, ok := i.ca.PrivateKey.(crypto.Signer)
	if !ok {
		return nil, errors.New("the key of the CA cannot sign")
	}
	_, hash, err := attestedBy(key.Public())
	if err != nil {
		return nil, err
	}
	digest := text
	if hash != 0 {
		sum := sha256.Sum256(text)
		digest = sum[:]
	}
	return key.Sign(rand.Reader, digest, hash)
}

// CheckAttestation checks that the CA with the pin, which is one of the bundle, attested a text.
func CheckAttestation(bundle [][]byte, pin Pin, text, signature []byte) error {
	for _, der := range bundle {
		ca, err := x509.ParseCertificate(der)
		if err != nil || PinOf(ca) != pin {
			continue
		}
		algorithm, _, err := attestedBy(ca.PublicKey)
		if err != nil {
			return err
		}
		return ca.CheckSignature(algorithm, text, signature)
	}
	return errors.New("the CA that the token names is not among those that it brought")
}

func attestedBy(public any) (x509.SignatureAlgorithm, crypto.Hash, error) {
	switch public.(type) {
	case *ecdsa.PublicKey:
		return x509.ECDSAWithSHA256, crypto.SHA256, nil
	case *rsa.PublicKey:
		return x509.SHA256WithRSA, crypto.SHA256, nil
	case ed25519.PublicKey:
		return x509.PureEd25519, 0, nil
	}
	return 0, 0, fmt.Errorf("a CA with a key of type %T attests nothing", public)
}
