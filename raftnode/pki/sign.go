package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

// Signature is a text's, by the holder of a certificate. It holds no secret.
type Signature struct {
	Chain [][]byte // the certificate, and those of CAs that came with its key, in DER
	Value []byte
}

// Sign signs a text with the credentials' own key. The text begins with what it is for, so that no signature is good for another
// purpose: a handshake's begins with spaces.
func (c *Credentials) Sign(text []byte) (Signature, error) {
	own := c.currentMaterial()
	if err := own.checkExpiry(c.files); err != nil {
		return Signature{}, err
	}
	key, ok := own.cert.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return Signature{}, fmt.Errorf("sign with the key of %s: it is no ECDSA key", c.id.Actor())
	}
	sum := sha256.Sum256(text)
	value, err := key.Sign(rand.Reader, sum[:], crypto.SHA256)
	if err != nil {
		return Signature{}, fmt.Errorf("sign with the key of %s: %w", c.id.Actor(), err)
	}
	return Signature{Chain: own.cert.Certificate, Value: value}, nil
}

// ErrAltered: a text is not the one that was signed.
var ErrAltered = errors.New("the signature is not of this text: one of them was altered")

// CheckSignature says who signed a text, if one of the CAs vouches for the signer's certificate at the time at. That time is the
// signer's word. A revocation is not known here.
func (t *Trust) CheckSignature(s Signature, text []byte, at time.Time) (Certificate, error) {
	if len(s.Chain) == 0 {
		return Certificate{}, errors.New("the signature has no certificate")
	}
	leaf, err := x509.ParseCertificate(s.Chain[0])
	if err != nil {
		return Certificate{}, fmt.Errorf("read the signer's certificate: %w", err)
	}
	if err := t.vouches(leaf, s.Chain[1:], at); err != nil {
		return Certificate{}, err
	}
	if leaf.CheckSignature(x509.ECDSAWithSHA256, text, s.Value) != nil {
		return Certificate{}, ErrAltered
	}
	return ReadCertificate(leaf)
}

// vouches checks the chain of a signer's certificate as it was at a time.
func (t *Trust) vouches(leaf *x509.Certificate, chain [][]byte, at time.Time) error {
	intermediates := x509.NewCertPool()
	for _, raw := range chain {
		cert, err := x509.ParseCertificate(raw)
		if err != nil {
			return fmt.Errorf("read the chain of the signer's certificate: %w", err)
		}
		intermediates.AddCert(cert)
	}
	when := at.UTC().Format(time.RFC3339)
	if at.Before(leaf.NotBefore) || at.After(leaf.NotAfter) {
		return fmt.Errorf("the signer's certificate was not valid on %s, when the text was signed: it is from %s to %s", when,
			leaf.NotBefore.UTC().Format(time.RFC3339), leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	_, err := leaf.Verify(x509.VerifyOptions{Roots: t.pool(), Intermediates: intermediates, CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	var unknown x509.UnknownAuthorityError
	switch {
	case errors.As(err, &unknown):
		return fmt.Errorf("the signer's certificate is not of a CA of cluster %s that is trusted here: name the CA with which it was issued", t.Cluster)
	case err != nil:
		return fmt.Errorf("the signer's certificate was not good on %s: %w", when, err)
	case leaf.IsCA:
		return errors.New("the signer's certificate is that of a CA, which signs no texts")
	}
	id, err := identityOf(leaf)
	if err == nil && id.Cluster != t.Cluster {
		err = fmt.Errorf("the signer %s is of another cluster than %s", id, t.Cluster)
	}
	return err
}
