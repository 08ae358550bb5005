package harness

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"time"
)

// AgeCertificate replaces a certificate by one of the CA in a folder with the same key, that was issued a time ago and has a time left:
// one is about to expire only when most of its life is over.
func AgeCertificate(caDir, file string, ago, left time.Duration) error {
	ca, err := tls.LoadX509KeyPair(filepath.Join(caDir, "ca.crt"), filepath.Join(caDir, "ca.key"))
	if err != nil {
		return fmt.Errorf("load the CA in %s: %w", caDir, err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return errors.New(file + " is no certificate")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return fmt.Errorf("read %s: %w", file, err)
	}
	now := time.Now()
	cert.SerialNumber = new(big.Int).Add(cert.SerialNumber, big.NewInt(1))
	cert.NotBefore, cert.NotAfter = now.Add(-ago), now.Add(left)
	der, err := x509.CreateCertificate(rand.Reader, cert, ca.Leaf, cert.PublicKey, ca.PrivateKey)
	if err != nil {
		return fmt.Errorf("sign %s: %w", file, err)
	}
	aged := file + ".aged"
	if err := os.WriteFile(aged, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		return err
	}
	return os.Rename(aged, file) // at once: the process reads it meanwhile
}
