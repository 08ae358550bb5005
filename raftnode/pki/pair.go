package pki

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// A certificate and its key are two files, which cannot be replaced at once. Where a file names several
// certificates, the one that matches the key is in force, and the others of CAs are its chain: so the new
// certificate is added first, the key is replaced, and then the old certificate is dropped. After each of these a
// process finds a pair.

// pairOf is the key with the certificate that it belongs to.
func pairOf(certs, key []byte) (tls.Certificate, error) {
	pair, err := tls.X509KeyPair(certs, key)
	if err == nil {
		return pair, nil
	}
	blocks := certificateBlocks(certs)
	for i, leaf := range blocks {
		content := pem.EncodeToMemory(leaf)
		for j, other := range blocks {
			if cert, parseErr := x509.ParseCertificate(other.Bytes); j != i && parseErr == nil && cert.IsCA {
				content = append(content, pem.EncodeToMemory(other)...)
			}
		}
		if pair, other := tls.X509KeyPair(content, key); other == nil {
			return pair, nil
		}
	}
	return tls.Certificate{}, err
}

func certificateBlocks(content []byte) (blocks []*pem.Block) {
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			blocks = append(blocks, block)
		}
	}
	return blocks
}

// replacePair replaces a certificate and its key, such that there is a pair whenever it is interrupted.
func replacePair(files Files, cert, key []byte) error {
	if old, err := readPair(files.Cert, files.Key); err == nil {
		both := append([][]byte{old.Certificate[0], cert}, old.Certificate[1:]...)
		if err := writePEM(files.Cert, "CERTIFICATE", both...); err != nil {
			return err
		}
	}
	if err := writePEM(files.Key, "PRIVATE KEY", key); err != nil {
		return err
	}
	return writePEM(files.Cert, "CERTIFICATE", cert)
}

func readPair(certFile, keyFile string) (tls.Certificate, error) {
	content, err := readTogether(certFile, keyFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	return parsePair(certFile, keyFile, content)
}

func parsePair(certFile, keyFile string, content [][]byte) (tls.Certificate, error) {
	pair, err := pairOf(content[0], content[1])
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("certificate %s and key %s: %w", certFile, keyFile, err)
	}
	return pair, nil
}

// issuer is the CA of a folder that signs, and all CAs that its certificate file names: two while one
// replaces the other.
type issuer struct {
	tls.Certificate
	cluster string
	all     []*x509.Certificate // the one that signs first
}

// others are the CAs that do not sign.
func (i *issuer) others() []*x509.Certificate { return i.all[1:] }

func loadCA(dir string) (*issuer, error) {
	certFile, keyFile := filepath.Join(dir, caCert), filepath.Join(dir, caKey)
	content, err := readTogether(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("read the CA in %s: %w", dir, err)
	}
	return parseCA(dir, content)
}

// parseCA reads the content of a CA's two files, which are in a folder or have their names elsewhere.
func parseCA(where string, content [][]byte) (*issuer, error) {
	certFile, keyFile := filepath.Join(where, caCert), filepath.Join(where, caKey)
	pair, err := parsePair(certFile, keyFile, content)
	if err != nil {
		return nil, fmt.Errorf("read the CA in %s: %w", where, err)
	}
	if len(pair.Leaf.URIs) != 1 || !pair.Leaf.IsCA {
		return nil, fmt.Errorf("%s is not the certificate of a holdfast CA", certFile)
	}
	bundle, err := parseBundle(certFile, content[0])
	if err != nil {
		return nil, err
	}
	ca := &issuer{Certificate: pair, cluster: pair.Leaf.URIs[0].Host, all: []*x509.Certificate{pair.Leaf}}
	for _, other := range bundle {
		if !other.Equal(pair.Leaf) {
			ca.all = append(ca.all, other)
		}
	}
	return ca, nil
}

// readBundle reads the CAs that a file names; none where it is not there.
func readBundle(path string) (all []*x509.Certificate, err error) {
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the CA bundle %s: %w", path, err)
	}
	return parseBundle(path, content)
}

func parseBundle(path string, content []byte) (all []*x509.Certificate, err error) {
	for _, block := range certificateBlocks(content) {
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("read the CA bundle %s: %w", path, err)
		}
		all = append(all, cert)
	}
	return all, nil
}

func writeBundle(path string, all []*x509.Certificate) error {
	raw := make([][]byte, 0, len(all))
	for _, ca := range all {
		raw = append(raw, ca.Raw)
	}
	return writePEM(path, "CERTIFICATE", raw...)
}

// addToBundle has the bundle name the CAs, before those that it names already.
func addToBundle(path string, cas ...*x509.Certificate) error {
	known, err := readBundle(path)
	if err != nil {
		return err
	}
	all := cas[:len(cas):len(cas)]
	for _, other := range known {
		if !names(cas, other) {
			all = append(all, other)
		}
	}
	if len(all) == len(known) && bytes.Equal(all[0].Raw, known[0].Raw) {
		return nil // it names them all
	}
	return writeBundle(path, all)
}

func names(bundle []*x509.Certificate, ca *x509.Certificate) bool {
	for _, known := range bundle {
		if known.Equal(ca) {
			return true
		}
	}
	return false
}
