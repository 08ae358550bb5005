package pki

import (
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

// Certificate is what an identity's certificate says of itself. It holds no secret.
type Certificate struct {
	Identity
	Serial           string // hex, lower case
	Issued, NotAfter time.Time
	Issuer           string // hex, the key id of the CA that signed it
}

// ReadCertificate reads the identity and the dates of a certificate. It is to be trusted only after
// the chain was verified.
func ReadCertificate(cert *x509.Certificate) (Certificate, error) {
	id, err := identityOf(cert)
	if err != nil {
		return Certificate{}, err
	}
	return Certificate{
		Identity: id, Serial: cert.SerialNumber.Text(16), Issued: issuedAt(cert, id.Role), NotAfter: cert.NotAfter,
		Issuer: fmt.Sprintf("%x", cert.AuthorityKeyId),
	}, nil
}

// issuedAt is when a certificate was made. Issue dates a certificate back; who else signs one may not.
func issuedAt(cert *x509.Certificate, role Role) time.Time {
	if cert.Subject.CommonName == subjectOf(role) {
		return cert.NotBefore.Add(backdate)
	}
	return cert.NotBefore
}

func subjectOf(role Role) string { return "holdfast " + string(role) }

// renewCommand is what renews an identity's certificate.
func (i Identity) renewCommand() string {
	return fmt.Sprintf("`holdfast ca issue --ca-dir CA --out FOLDER --role %s --name %s`", i.Role, i.Name)
}

// expiredError explains the verification's error of a certificate that has expired; nil for other errors.
func expiredError(what string, cert *x509.Certificate, err error) error {
	var invalid x509.CertificateInvalidError
	if !errors.As(err, &invalid) || invalid.Reason != x509.Expired || invalid.Cert == nil {
		return nil
	}
	date := cert.NotAfter.UTC().Format(time.RFC3339)
	id, idErr := identityOf(cert)
	switch {
	case idErr != nil:
		return fmt.Errorf("%s has expired on %s", what, date)
	case !invalid.Cert.Equal(cert):
		return fmt.Errorf("%s of %s was signed by a CA that has expired on %s: replace the CA with `holdfast ca rotate`", what, id.Actor(), invalid.Cert.NotAfter.UTC().Format(time.RFC3339))
	case time.Now().Before(cert.NotBefore):
		return fmt.Errorf("%s of %s is not valid before %s: compare the clocks of the hosts", what, id.Actor(), cert.NotBefore.UTC().Format(time.RFC3339))
	}
	return fmt.Errorf("%s of %s expired on %s; renew it with %s", what, id.Actor(), date, id.renewCommand())
}
