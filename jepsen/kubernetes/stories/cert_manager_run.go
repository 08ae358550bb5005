package stories

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/kit"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// certManagerParts are the templates of cert-manager's chart that are applied: its CRDs, and the rights of its controllers. Their pod is
// a process of the control plane.
var certManagerParts = []string{
	"serviceaccount", "rbac", "crd-acme.cert-manager.io_challenges", "crd-acme.cert-manager.io_orders", "crd-cert-manager.io_certificaterequests",
	"crd-cert-manager.io_certificates", "crd-cert-manager.io_clusterissuers", "crd-cert-manager.io_issuers",
}

const certManagerNamespace = `apiVersion: v1
kind: Namespace
metadata: {name: cert-manager}
`

// certManagerFile has the objects that were applied.
func (m *managed) certManagerFile() string { return filepath.Join(m.Cluster.Dir, "cert-manager.yaml") }

// startCertManager starts cert-manager, with the rights that its chart gives it.
func (m *managed) startCertManager(ctx context.Context) error {
	chart, err := m.Cluster.CertManagerChart()
	if err != nil {
		return err
	}
	args := []string{"template", "cert-manager", chart, "--kube-version", m.Cluster.Version, "--set", "crds.enabled=true"}
	for _, part := range certManagerParts {
		args = append(args, "--show-only", "templates/"+part+".yaml")
	}
	objects, err := m.In("cert-manager").Helm(ctx, m.Settings.Helm, args...)
	if err != nil {
		return err
	}
	if err := os.WriteFile(m.certManagerFile(), []byte(certManagerNamespace+objects+"\n"), 0o600); err != nil {
		return err
	}
	if err := m.run(ctx, fmt.Sprintf("kubectl apply --server-side --force-conflicts -f %q", m.certManagerFile())); err != nil {
		return err
	}
	return m.Cluster.RunCertManager()
}

// leave wants nothing of cert-manager's to be left where Holdfast is, and removes cert-manager itself.
func (m *managed) leave(ctx context.Context) error {
	return all(
		func() error { return kit.Until(ctx, patience, func() error { return m.noneLeft(ctx) }) },
		func() error { return m.Cluster.EndCertManager() },
		func() error { return m.run(ctx, fmt.Sprintf("kubectl delete --timeout=2m -f %q", m.certManagerFile())) },
		func() error { return os.RemoveAll(m.folder) },
	)
}

func (m *managed) noneLeft(ctx context.Context) error {
	var left []string
	for _, kind := range []string{"certificates", "certificaterequests", "issuers"} {
		found, err := m.In(namespace).List(ctx, kind+".cert-manager.io", "")
		if err != nil {
			return err
		}
		for _, o := range found {
			left = append(left, kind+" "+o.GetName())
		}
	}
	names, err := m.secretNames(ctx)
	if err != nil {
		return err
	}
	ca, err := m.Client.CoreV1().Secrets(namespace).Get(ctx, "holdfast-ca", metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, name := range names {
		if !slices.Contains(m.secrets, name) {
			left = append(left, "secret "+name)
		}
	}
	for name := range ca.Data {
		if strings.HasPrefix(name, "tls.") {
			left = append(left, name+" of the secret holdfast-ca")
		}
	}
	if len(left) > 0 {
		return fmt.Errorf("this is left: %s", strings.Join(left, ", "))
	}
	return nil
}

// secretNames are the names of the Secrets where Holdfast is, without those that helm keeps of each upgrade.
func (m *managed) secretNames(ctx context.Context) (names []string, err error) {
	found, err := m.Client.CoreV1().Secrets(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, s := range found.Items {
		if !strings.HasPrefix(s.Name, "sh.helm.release.") {
			names = append(names, s.Name)
		}
	}
	if !slices.Contains(names, "holdfast-ca") {
		return nil, errors.New("there is no Secret holdfast-ca")
	}
	return names, nil
}
