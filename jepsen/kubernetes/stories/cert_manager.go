package stories

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/story"
)

var certManaged = story.Story{
	Name: "cert-manager", Tells: "under a pod that writes, and by the page's commands, cert-manager comes to issue the controllers' certificates; it renews them when asked, when a Secret is gone and by itself, and no pod is started again; " +
		"a node without its certificate enrols; then the controllers issue their own again, and nothing of it is left",
	Limit: 50 * time.Minute, Tell: tellCertManager, Needs: byCertManager,
}

// certManagerSection is the heading of the section whose commands are run.
const certManagerSection = "With cert-manager"

// byCertManager says why the story cannot be told.
func byCertManager(ctx context.Context, t *story.Teller) error {
	if _, err := t.Cluster.CertManagerChart(); err != nil {
		return err
	}
	if t.Cluster.Guests > 0 {
		return errors.New("certificates are the same where nodes have kernels of their own: this is told where none has")
	}
	return byHelm(ctx, t)
}

// managed is a cluster whose controllers get their certificates from cert-manager.
type managed struct {
	*story.Teller
	folder  string               // where commands are typed
	blocks  section              // of the page
	secrets []string             // the names of all before cert-manager came
	before  [3]*x509.Certificate // what the controllers served with then
}

func tellCertManager(ctx context.Context, t *story.Teller) error {
	m := managed{Teller: t, folder: filepath.Join(t.Cluster.Dir, "cert-manager")}
	return all(
		func() error { return m.begin(ctx) },
		func() error { return m.freshSecret(ctx) },
		func() error { return m.change(ctx) },
		func() error { return m.nodeEnrols(ctx) },
		func() error { return m.renewals(ctx) },
		func() error { return m.goBack(ctx) },
		func() error { return m.leave(ctx) },
		func() error {
			_, err := whole(ctx, t)
			return errors.Join(err, stampsGoOn(ctx, t), notePause(ctx, t), writerOn(ctx, t, "afterwards", ""))
		},
	)
}

// begin has a pod that writes, cert-manager, and a folder with what the page names.
func (m *managed) begin(ctx context.Context) (err error) {
	if m.blocks, err = readSection(m.Settings.Chart, certManagerSection); err != nil {
		return err
	}
	for n := range m.before { // of a story that failed: what is there is not issued
		if err := m.In(namespace).Delete(ctx, "secrets", tlsSecret(n), false); err != nil {
			return err
		}
	}
	if m.secrets, err = m.secretNames(ctx); err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(m.folder), os.MkdirAll(m.folder, 0o700)); err != nil {
		return err
	}
	if err := os.Symlink(filepath.Dir(m.Settings.Chart), filepath.Join(m.folder, "deploy")); err != nil {
		return err
	}
	return all(
		func() error { return m.values("") },
		func() error { return m.write("issuer.yaml", "kind: Issuer") },
		func() error {
			return start(ctx, m.Teller, claim{name: "writer", class: late, size: "1Gi"}, pod{name: "writer", command: stampOn})
		},
		func() error { return m.startCertManager(ctx) },
		func() (err error) {
			for n := range m.before {
				if m.before[n], err = m.served(ctx, n); err != nil {
					return err
				}
			}
			return nil
		},
	)
}

// values writes the values of the install, and more of them, as a reader keeps them.
func (m *managed) values(more string) error {
	text, err := os.ReadFile(valuesFile(m.Teller))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(m.folder, "values.yaml"), append(text, more...), 0o600)
}

// write writes a block of the page into a file of the folder.
func (m *managed) write(name, words string) error {
	block, err := m.blocks.with(words)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(m.folder, name), []byte(block), 0o600)
}

// types runs the block of the page that has these words.
func (m *managed) types(ctx context.Context, words string) error {
	block, err := m.blocks.with(words)
	if err != nil {
		return err
	}
	return m.run(ctx, block)
}

func (m *managed) run(ctx context.Context, commands string) error {
	return runPage(ctx, m.Teller, fmt.Sprintf("cd %q\n%s", m.folder, commands))
}
