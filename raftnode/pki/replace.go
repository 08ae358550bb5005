package pki

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// nextKeySuffix ends the name of the key that is to replace a certificate's, until there is a certificate for it.
const nextKeySuffix = ".next"

// RequestNext makes a certificate request for the key that is to replace the one in files; where no certificate is there yet, for
// that one. The key is made first where it is not there, and kept until it is used: a request that was interrupted is made again
// for the same key.
func RequestNext(files Files) (request []byte, keyFile string, err error) {
	keyFile = files.Key
	if _, err := os.Lstat(files.Cert); err == nil {
		keyFile += nextKeySuffix
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, "", fmt.Errorf("look at %s: %w", files.Cert, err)
	}
	request, err = MakeRequest(keyFile)
	return request, keyFile, err
}

// InstallNext writes what an enrolment brought for the key of RequestNext. There is a pair that can be used whenever it is
// interrupted, where there was one. The bundle names the CAs beside those that it named.
func InstallNext(files Files, keyFile string, id Identity, cert []byte, bundle [][]byte) error {
	if keyFile == files.Key {
		return Install(files, id, cert, bundle)
	}
	next := files
	next.Key = keyFile
	cas, err := checkIssued(next, id, cert, bundle)
	if err != nil {
		return fmt.Errorf("install the certificate of %s: %w", id.Actor(), err)
	}
	of, err := readKey(keyFile)
	if err != nil {
		return err
	}
	key, err := x509.MarshalPKCS8PrivateKey(of)
	if err != nil {
		return err
	}
	if err := addToBundle(files.CA, cas...); err != nil {
		return err
	}
	if err := replacePair(files, cert, key); err != nil {
		return err
	}
	if err := os.Remove(keyFile); err != nil {
		return fmt.Errorf("remove the key that is in use under another name now: %w", err)
	}
	return nil
}

// IssueOwn issues a certificate for an identity by the CA in a folder and writes it into files, as Issue does, unless the one that is
// there is by this CA and lasts for longer than a third of its life. The bundle names the CA folder's CAs and no others, as soon
// as the certificate is by one of them. changed tells whether a certificate was issued.
func IssueOwn(caDir string, files Files, id Identity, validity time.Duration, now time.Time) (changed bool, err error) {
	ca, err := loadCA(caDir)
	if err != nil {
		return false, err
	}
	id.Cluster = ca.cluster
	trust := &Trust{Cluster: ca.cluster, cas: ca.all}
	if err := checkIssue(id, ca.cluster, validity); err != nil {
		return false, fmt.Errorf("issue a certificate with the CA in %s: %w", caDir, err)
	}
	due, err := IsDue(files, id, trust, now)
	switch {
	case err != nil:
		return false, err
	case !due:
		return false, trust.WriteTo(files.CA)
	}
	cert, key, err := signCertificate(leafTemplate(id, validity, ca.Leaf), &ca.Certificate)
	if err != nil {
		return false, fmt.Errorf("issue a certificate for %s: %w", id, err)
	}
	if err := makePrivateDir(filepath.Dir(files.Cert)); err != nil {
		return false, err
	}
	if err := addToBundle(files.CA, ca.all...); err != nil {
		return false, err
	}
	if err := replacePair(files, cert, key); err != nil {
		return false, err
	}
	return true, trust.WriteTo(files.CA)
}

// IsDue tells whether files need another certificate: there is none that belongs to the key, or less than a third of its life is
// left, or it is not by the CA that signs. One that is there for another identity is an error.
func IsDue(files Files, id Identity, trust *Trust, now time.Time) (bool, error) {
	have, ok, err := Installed(files.Cert)
	switch {
	case err != nil:
		return false, err
	case !ok:
		return true, nil
	case have.Role != id.Role || have.Name != id.Name:
		return false, fmt.Errorf("%s is the certificate of %s, not of %s: name other files, or remove it", files.Cert, have.Actor(), id.Actor())
	}
	if _, err := readPair(files.Cert, files.Key); err != nil {
		return true, nil //nolint:nilerr // what is there cannot be used, whatever it is
	}
	left, life := have.NotAfter.Sub(now), have.NotAfter.Sub(have.Issued)
	return left < life/3 || have.Cluster != id.Cluster || !trust.SignsFirst(files.Cert), nil
}
