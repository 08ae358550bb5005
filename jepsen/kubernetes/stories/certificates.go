package stories

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/cluster"
	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/kit"
	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/story"
)

var certificates = story.Story{
	Name: "certificates", Tells: "the CA is replaced by the page's commands under a pod that writes, and with it every certificate; claims are made meanwhile, and afterwards nobody trusts the old CA",
	Limit: 50 * time.Minute, Tell: tellCertificates, Needs: byHelm,
}

// The commands of deploy/OPERATIONS.md for another CA, in an empty folder of one's own.
const (
	getCA = `umask 077
mkdir ca
for file in ca.crt ca.key; do
  kubectl -n holdfast get secret holdfast-ca -o go-template="{{index .data \"$file\"}}" | base64 -d > ca/$file
done`
	putCA = `kubectl -n holdfast create secret generic holdfast-ca --from-file=ca --dry-run=client -o yaml | kubectl replace -f -
kubectl -n holdfast rollout restart statefulset/holdfast-controller
kubectl -n holdfast rollout status statefulset/holdfast-controller --timeout=10m`
)

// seen is a certificate that is in use.
type seen struct{ Role, Name, Serial, Issuer string }

func tellCertificates(ctx context.Context, t *story.Teller) error {
	if err := writerOn(ctx, t, "writer", ""); err != nil {
		return err
	}
	r := rotation{Teller: t, folder: filepath.Join(t.Cluster.Dir, "rotation")}
	if err := errors.Join(os.RemoveAll(r.folder), os.MkdirAll(r.folder, 0o700)); err != nil {
		return err
	}
	// The files in it are keys.
	defer func() { _ = os.RemoveAll(r.folder) }() // else it goes with the cluster
	return all(
		func() error { return r.begin(ctx) },
		func() error { return r.bothTrusted(ctx) },
		func() error { return r.newSigns(ctx) },
		func() error { return r.oldGone(ctx) },
		func() error {
			_, err := whole(ctx, t)
			return errors.Join(err, writesOn(ctx, t, "writer"), writerOn(ctx, t, "other", ""))
		},
	)
}

// rotation is the replacement of the CA.
type rotation struct {
	*story.Teller
	folder string
	before map[string]seen // the certificates in use, by whose they are
}

// page runs commands in the folder with the CA's files.
func (r *rotation) page(ctx context.Context, commands string) (string, error) {
	return page(ctx, r.Teller, fmt.Sprintf("cd %q\n%s", r.folder, commands))
}

// begin gets the CA, and an operator's certificate of it that is to be refused at the end.
func (r *rotation) begin(ctx context.Context) (err error) {
	if err := kit.Until(ctx, patience, func() error {
		r.before, err = r.inUse(ctx)
		return err
	}); err != nil {
		return err
	}
	if _, err := r.page(ctx, getCA); err != nil {
		return err
	}
	if _, err := r.page(ctx, "holdfast ca issue --ca-dir ca --out old --role admin --name former"); err != nil {
		return err
	}
	return r.former(ctx, "ca/ca.crt")
}

// former asks with the certificate of the old CA, and itself trusts the CAs in a file.
func (r *rotation) former(ctx context.Context, trusted string) error {
	_, err := r.page(ctx, "kubectl holdfast status --cert old/admin-former.crt --key old/admin-former.key --ca "+trusted)
	return err
}

// bothCAs is a file that goes on naming both, so that it is the controllers who refuse.
const bothCAs = "both.crt"

// inUse are the certificates of all controllers and nodes, once each of them has one.
func (r *rotation) inUse(ctx context.Context) (map[string]seen, error) {
	var list struct {
		Certificates []seen
		Unknown      []string
	}
	if err := ask(ctx, r.Teller, &list, "certs", "list"); err != nil {
		return nil, err
	}
	found := map[string]seen{}
	for _, c := range list.Certificates {
		of := c.Role + "/" + c.Name
		if other, ok := found[of]; ok {
			return nil, fmt.Errorf("%s is known by two certificates, of the CAs %s and %s", of, other.Issuer, c.Issuer)
		}
		found[of] = c
	}
	for _, of := range r.all() {
		if _, ok := found[of]; !ok {
			return nil, fmt.Errorf("no certificate of %s is in use; these are: %v; not asked: %v", of, slices.Sorted(maps.Keys(found)), list.Unknown)
		}
	}
	return found, nil
}

// all are those that have a certificate.
func (r *rotation) all() (names []string) {
	for n := range 3 {
		names = append(names, "controller/"+controllerName(n))
	}
	for n := 1; n <= r.Cluster.Nodes; n++ {
		names = append(names, "node/"+cluster.NodeName(n))
	}
	return names
}

// bothTrusted is the first stage.
func (r *rotation) bothTrusted(ctx context.Context) error {
	return all(
		func() error { return r.stage(ctx, "") },
		func() error {
			_, err := r.page(ctx, "cp ca/ca.crt "+bothCAs)
			return err
		},
		func() error { return r.Time("to both CAs on every node", func() error { return r.trust(ctx, 2) }) },
	)
}

// stage runs one stage on the copy of the Secret, and has the controllers take it up.
func (r *rotation) stage(ctx context.Context, flag string) error {
	rotate := strings.TrimSpace("ca rotate " + flag)
	return r.Time(rotate+", and the controllers started again", func() error {
		for _, commands := range []string{"holdfast ca rotate --ca-dir ca " + flag, "holdfast ca rotate --ca-dir ca " + flag + " --yes", putCA} {
			if _, err := r.page(ctx, commands); err != nil {
				return err
			}
		}
		return nil
	})
}

// trust wants so many CAs in the ConfigMap and in the file of every node.
func (r *rotation) trust(ctx context.Context, want int) error {
	return kit.Until(ctx, 10*time.Minute, func() error {
		bundle, err := r.In(namespace).Get(ctx, "configmaps", "holdfast-ca-bundle")
		if err != nil {
			return err
		}
		if got := strings.Count(kit.Text(bundle, "data", "ca.crt"), "BEGIN CERTIFICATE"); got != want {
			return fmt.Errorf("the ConfigMap holdfast-ca-bundle names %d CAs, not %d", got, want)
		}
		for n := 1; n <= r.Cluster.Nodes; n++ {
			text, err := r.Cluster.Node(n).Exec(ctx, "cat", "/var/lib/holdfast/tls-node/ca.crt")
			if err != nil {
				return err
			}
			if got := strings.Count(text, "BEGIN CERTIFICATE"); got != want {
				return fmt.Errorf("the node %s trusts %d CAs, not %d", cluster.NodeName(n), got, want)
			}
		}
		return nil
	})
}

// newSigns is the second stage. A node whose token was used already waits for the next one, which takes up to ten minutes.
func (r *rotation) newSigns(ctx context.Context) error {
	return all(
		func() error { return r.stage(ctx, "--switch") },
		func() error {
			return r.Time("claim to Bound meanwhile", func() error { return madeMeanwhile(ctx, r.Teller, "meanwhile") })
		},
		func() error {
			return r.Time("to every certificate by the new CA", func() error { return r.replaced(ctx) })
		},
		func() error { return r.former(ctx, bothCAs) },
	)
}

// replaced waits until all have another certificate, by one other CA, and no certificate of the old one is in use.
func (r *rotation) replaced(ctx context.Context) error {
	return kit.Until(ctx, 20*time.Minute, func() error {
		now, err := r.inUse(ctx)
		if err != nil {
			return err
		}
		issuer := now[r.all()[0]].Issuer
		for of, c := range now {
			before := r.before[r.all()[0]]
			if c.Issuer == before.Issuer || c.Issuer != issuer || c.Serial == r.before[of].Serial {
				return fmt.Errorf("%s uses the certificate %s of the CA %s; the old CA is %s", of, c.Serial, c.Issuer, before.Issuer)
			}
		}
		return nil
	})
}

// oldGone is the last stage. The certificate of the old CA, which was good until then, is refused.
func (r *rotation) oldGone(ctx context.Context) error {
	return all(
		func() error { return r.stage(ctx, "--finish --even-if-in-use") },
		func() error {
			return r.Time("to the new CA alone on every node", func() error { return r.trust(ctx, 1) })
		},
		func() error { return r.refused(ctx) },
		func() error {
			return r.Time("claim to Bound afterwards", func() error { return madeMeanwhile(ctx, r.Teller, "afterwards") })
		},
	)
}

func (r *rotation) refused(ctx context.Context) error {
	if _, err := holdfast(ctx, r.Teller, "status"); err != nil {
		return fmt.Errorf("a certificate of the new CA: %w", err)
	}
	err := r.former(ctx, bothCAs)
	if err == nil {
		return errors.New("a certificate of the old CA is still good")
	}
	text := err.Error()
	r.Note("with a certificate of the old CA: %s", text[strings.LastIndex(text, "\n")+1:])
	return nil
}
