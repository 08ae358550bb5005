package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// caNextKey is the key of the CA that is to replace the one in a folder, until it signs.
const caNextKey = "ca-next.key"

// A CA is replaced in three stages, so that at no time two processes meet of which one does not trust the
// other. The certificate file of the CA's folder names both CAs from the first stage to the last; which of
// them signs is decided by the key alone, which is replaced by one rename.

// rotation is a CA's folder, and the folders of certificates that it is rotated with.
type rotation struct {
	dir     string
	folders []string
	ca      *issuer
	next    *x509.Certificate // of caNextKey; nil: it has none yet
	begun   bool              // caNextKey is there
}

func readRotation(dir string, folders []string) (*rotation, error) {
	ca, err := loadCA(dir)
	if err != nil {
		return nil, err
	}
	r := &rotation{dir: dir, folders: folders, ca: ca}
	switch _, err := os.Lstat(r.path(caNextKey)); {
	case errors.Is(err, fs.ErrNotExist):
		return r, nil
	case err != nil:
		return nil, fmt.Errorf("look at %s: %w", r.path(caNextKey), err)
	}
	r.begun = true
	if pair, err := readPair(r.path(caCert), r.path(caNextKey)); err == nil {
		r.next = pair.Leaf
	}
	return r, nil
}

func (r *rotation) path(name string) string { return filepath.Join(r.dir, name) }

// switched tells whether the new CA signs, and the old one is still trusted.
func (r *rotation) switched() bool { return !r.begun && len(r.ca.others()) > 0 }

// PlanRotate plans the first stage: a new CA beside the old one, and bundles that name both.
func PlanRotate(dir string, folders []string) (*FilePlan, error) {
	r, err := readRotation(dir, folders)
	if err != nil {
		return nil, err
	}
	if r.switched() {
		return nil, fmt.Errorf("rotate the CA in %s: the last rotation is not finished: end it with --finish first", dir)
	}
	p := &FilePlan{Next: "give every host and operator its folder's " + caCert + ", which names both CAs; then `holdfast ca rotate --switch`"}
	p.add(r.next != nil, r.makeNext, "make a new CA", r.path(caCert), "for cluster %s, beside the one of serial %s", r.ca.cluster, r.ca.Leaf.SerialNumber.Text(16))
	return p, r.addBundles(p, r.next)
}

// makeNext makes the new key, and its certificate in the file that names both.
func (r *rotation) makeNext() error {
	key, err := r.nextKey()
	if err != nil {
		return err
	}
	cert, _, err := newCACertificate(r.ca.cluster, key)
	if err != nil {
		return err
	}
	next, err := x509.ParseCertificate(cert)
	if err != nil {
		return err
	}
	return writeBundle(r.path(caCert), append(slices.Clone(r.ca.all), next))
}

// nextKey reads the new key, and makes it first where it is not there.
func (r *rotation) nextKey() (*ecdsa.PrivateKey, error) {
	if !r.begun {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return nil, fmt.Errorf("make a key: %w", err)
		}
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			return nil, err
		}
		return key, writePEM(r.path(caNextKey), "PRIVATE KEY", der)
	}
	return readKey(r.path(caNextKey))
}

// readKey reads an ECDSA key.
func readKey(path string) (*ecdsa.PrivateKey, error) {
	content, err := readPrivate(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(content)
	if block == nil {
		return nil, fmt.Errorf("%s holds no PEM key: remove it and repeat the command", path)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if of, ok := key.(*ecdsa.PrivateKey); ok {
		return of, nil
	}
	return nil, errors.Join(fmt.Errorf("%s holds no ECDSA key: remove it and repeat the command", path), err)
}

// addBundles has each folder's bundle name all CAs of the CA's folder, with what is not made yet.
func (r *rotation) addBundles(p *FilePlan, next *x509.Certificate) error {
	for _, dir := range r.folders {
		bundle := filepath.Join(dir, caCert)
		known, err := readBundle(bundle)
		if err != nil {
			return err
		}
		done := next != nil && names(known, next)
		p.add(done || r.isOwn(dir), func() error {
			ca, err := loadCA(r.dir)
			if err != nil {
				return err
			}
			return addToBundle(bundle, ca.all...)
		}, "trust both CAs", bundle, "it names %d", len(known))
	}
	return nil
}

// isOwn tells whether certificates are in the CA's own folder.
func (r *rotation) isOwn(dir string) bool { return filepath.Clean(dir) == filepath.Clean(r.dir) }

// PlanSwitch plans the second stage: the new CA signs, and the certificates in the folders are issued again by it.
func PlanSwitch(dir string, folders []string, validity time.Duration) (*FilePlan, error) {
	r, err := readRotation(dir, folders)
	switch {
	case err != nil:
		return nil, err
	case validity <= 0:
		return nil, fmt.Errorf("validity %s is not above zero", validity)
	case !r.switched() && r.next == nil:
		return nil, fmt.Errorf("issue with the new CA of %s: there is none; make it with `holdfast ca rotate` first", dir)
	}
	p := &FilePlan{Next: "give each host its files; when `holdfast certs list` shows no certificate of the old CA any more, `holdfast ca rotate --finish`"}
	if err := r.addBundles(p, r.newest()); err != nil {
		return nil, err
	}
	p.add(r.switched(), func() error { return moveFile(r.path(caNextKey), r.path(caKey)) }, "sign with the new CA", r.path(caKey), "the old key is removed")
	return p, r.addLeaves(p, validity)
}

// newest is the CA that signs when the rotation has ended.
func (r *rotation) newest() *x509.Certificate {
	if r.next != nil {
		return r.next
	}
	return r.ca.Leaf
}

func (r *rotation) addLeaves(p *FilePlan, validity time.Duration) error {
	leaves, err := leavesIn(r.folders)
	if err != nil {
		return err
	}
	for _, leaf := range leaves {
		if err := checkIssue(leaf.cert.Identity, r.ca.cluster, validity); err != nil {
			return fmt.Errorf("issue %s again: %w", leaf.Cert, err)
		}
		p.add(r.switched() && leaf.ca(r.ca), func() error { return leaf.issue(r.dir, validity) },
			"issue "+leaf.cert.Actor()+" again", leaf.Cert, "serial %s, good until %s", leaf.cert.Serial, leaf.cert.NotAfter.UTC().Format(time.RFC3339))
	}
	return nil
}

// PlanFinish plans the last stage: the bundles name the new CA only. It is refused while a certificate in
// the folders is the old one's.
func PlanFinish(dir string, folders []string) (*FilePlan, error) {
	r, err := readRotation(dir, folders)
	switch {
	case err != nil:
		return nil, err
	case r.begun:
		return nil, fmt.Errorf("drop the old CA of %s: it still signs; `holdfast ca rotate --switch` first", dir)
	}
	leaves, err := leavesIn(folders)
	if err != nil {
		return nil, err
	}
	for _, leaf := range leaves {
		if !leaf.ca(r.ca) {
			return nil, fmt.Errorf("drop the old CA of %s: it signed %s of %s; issue that again with `holdfast ca rotate --switch`", dir, leaf.Cert, leaf.cert.Actor())
		}
	}
	p := &FilePlan{Next: "give every host and operator its folder's " + caCert + ": connections of certificates of the old CA end then"}
	for _, folder := range append(slices.Clone(folders), dir) { // its own last: until then the verb finds what is left
		if err := r.dropOld(p, filepath.Join(folder, caCert)); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// dropOld has the bundle name no other CA of this cluster.
func (r *rotation) dropOld(p *FilePlan, bundle string) error {
	known, err := readBundle(bundle)
	if err != nil {
		return err
	}
	kept := slices.DeleteFunc(slices.Clone(known), func(ca *x509.Certificate) bool {
		return !ca.Equal(r.ca.Leaf) && len(ca.URIs) == 1 && ca.URIs[0].Host == r.ca.cluster
	})
	if !names(kept, r.ca.Leaf) {
		kept = append(kept, r.ca.Leaf)
	}
	p.add(len(kept) == len(known), func() error { return writeBundle(bundle, kept) }, "trust the new CA only", bundle, "it names %d", len(known))
	return nil
}

// IssuerID is the key id, in hex, of the CA that signs in a folder: Certificate.Issuer of what it signed.
func IssuerID(dir string) (string, error) {
	ca, err := loadCA(dir)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", ca.Leaf.SubjectKeyId), nil
}
