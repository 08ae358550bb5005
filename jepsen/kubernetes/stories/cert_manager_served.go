package stories

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"

	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/kit"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// taken waits until a controller serves with the certificate that cert-manager keeps in its Secret, of the cluster's CA, which is not the
// one with this serial number.
func (m *managed) taken(ctx context.Context, n int, not *big.Int) error {
	return kit.Until(ctx, 2*patience, func() error {
		issued, err := m.issuedTo(ctx, n)
		if err != nil {
			return err
		}
		now, err := m.served(ctx, n)
		switch {
		case err != nil:
			return err
		case issued.SerialNumber.Cmp(not) == 0:
			return fmt.Errorf("cert-manager has issued no other certificate to %s than %x", controllerName(n), not)
		case !now.Equal(issued):
			return fmt.Errorf("%s serves with the certificate %x, and its Secret has %x", controllerName(n), now.SerialNumber, issued.SerialNumber)
		case !bytes.Equal(now.AuthorityKeyId, m.before[n].AuthorityKeyId):
			return fmt.Errorf("the certificate of %s is of the CA %x, and that of the cluster is %x", controllerName(n), now.AuthorityKeyId, m.before[n].AuthorityKeyId)
		}
		return nil
	})
}

// tlsSecret is the Secret with a controller's certificate.
func tlsSecret(n int) string { return fmt.Sprintf("holdfast-controller-tls-%d", n) }

// issuedTo is the certificate in a controller's Secret.
func (m *managed) issuedTo(ctx context.Context, n int) (*x509.Certificate, error) {
	secret, err := m.Client.CoreV1().Secrets(namespace).Get(ctx, tlsSecret(n), metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(secret.Data[corev1.TLSCertKey])
	if block == nil {
		return nil, fmt.Errorf("the Secret %s has no certificate", secret.Name)
	}
	return x509.ParseCertificate(block.Bytes)
}

// served is the certificate with which a controller serves whoever connects now. It is shown before the client's is asked for.
func (m *managed) served(ctx context.Context, n int) (*x509.Certificate, error) {
	pod, err := m.Client.CoreV1().Pods(namespace).Get(ctx, controllerName(n), metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: 5 * time.Second}, Config: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}}
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(pod.Status.PodIP, "9802"))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0], nil
}
