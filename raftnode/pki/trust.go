package pki

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
)

// Trust are the CAs of one cluster, as somebody gave them to a process that has no certificate yet: the one that signs first.
// They are no secret.
type Trust struct {
	Cluster string
	cas     []*x509.Certificate
}

// ReadTrust reads the CAs that a file names. Anybody may read the file, so its mode does not count.
func ReadTrust(path string) (*Trust, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the CAs in %s: %w", path, err)
	}
	t, err := ParseTrust(content)
	if err != nil {
		return nil, fmt.Errorf("read the CAs in %s: %w", path, err)
	}
	return t, nil
}

// ParseTrust reads CAs, in PEM.
func ParseTrust(content []byte) (*Trust, error) {
	t := &Trust{}
	for _, block := range certificateBlocks(content) {
		ca, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		if len(ca.URIs) != 1 || !ca.IsCA {
			return nil, errors.New("one of the certificates is not that of a holdfast CA")
		}
		if t.Cluster == "" {
			t.Cluster = ca.URIs[0].Host
		}
		if ca.URIs[0].Host != t.Cluster {
			return nil, fmt.Errorf("the CAs are of two clusters, %s and %s", t.Cluster, ca.URIs[0].Host)
		}
		t.cas = append(t.cas, ca)
	}
	if len(t.cas) == 0 {
		return nil, errors.New("there is no PEM certificate")
	}
	return t, nil
}

// PEM are the CAs as a file has them.
func (t *Trust) PEM() (content []byte) {
	for _, ca := range t.cas {
		content = append(content, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Raw})...)
	}
	return content
}

func (t *Trust) pool() *x509.CertPool {
	roots := x509.NewCertPool()
	for _, ca := range t.cas {
		roots.AddCert(ca)
	}
	return roots
}

// Client is a configuration that accepts a controller of the cluster, whatever its address. It has no certificate itself.
func (t *Trust) Client() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		NextProtos:         []string{"h2"},
		InsecureSkipVerify: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			peer, err := verifyChain(t.pool(), state.PeerCertificates, nil, x509.ExtKeyUsageServerAuth)
			switch {
			case err != nil:
				return explainPeer(state.PeerCertificates, x509.ExtKeyUsageServerAuth, err)
			case peer.Cluster != t.Cluster || peer.Role != Controller:
				return fmt.Errorf("the peer %s is no controller of cluster %s", peer, t.Cluster)
			}
			return nil
		},
	}
}

// CheckAttestation checks that one of the CAs attested a text.
func (t *Trust) CheckAttestation(text, signature []byte) error {
	var errs []error
	for _, ca := range t.cas {
		err := CheckAttestation([][]byte{ca.Raw}, PinOf(ca), text, signature)
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// SignsFirst tells whether the certificate in a file was signed by the CA that signs. Where the file cannot be used it is false.
func (t *Trust) SignsFirst(certFile string) bool {
	content, err := readPrivate(certFile)
	if err != nil {
		return false
	}
	for _, block := range certificateBlocks(content) {
		leaf, err := x509.ParseCertificate(block.Bytes)
		return err == nil && leaf.CheckSignatureFrom(t.cas[0]) == nil
	}
	return false
}

// WriteTo has the bundle at path name these CAs and no others.
func (t *Trust) WriteTo(path string) error {
	known, err := readBundle(path)
	if err != nil {
		return err
	}
	same := len(known) == len(t.cas)
	for i := range known {
		same = same && known[i].Equal(t.cas[i])
	}
	if same {
		return nil
	}
	return writeBundle(path, t.cas)
}

// TrustOf are the CAs in a folder of MakeCA.
func TrustOf(caDir string) (*Trust, error) {
	ca, err := loadCA(caDir)
	if err != nil {
		return nil, err
	}
	return ca.trust(), nil
}

func (i *issuer) trust() *Trust { return &Trust{Cluster: i.cluster, cas: i.all} }
