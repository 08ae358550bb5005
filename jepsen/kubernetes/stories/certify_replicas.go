package stories

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/story"
)

var certifiedReplicas = story.Story{
	Name: "certify-replicated", Tells: "pods of `certify --write` write to replicated volumes while leadership is handed over, and node plugins are restarted; the node with the other replica reads back what was acknowledged",
	Limit: 20 * time.Minute, Tell: tellCertifiedReplicas, Needs: byReplicas,
}

func tellCertifiedReplicas(ctx context.Context, t *story.Teller) error {
	d, err := newDrill(t, withReplicas)
	if err != nil {
		return err
	}
	err = t.Time("the whole run", func() error {
		_, err := page(ctx, t, d.command("--restart-node-plugins --yes --out "+d.report()))
		return err
	})
	if err != nil {
		return err
	}
	return all(func() error { return d.nothing(ctx) }, func() error { return d.readElsewhere(ctx) })
}

// readElsewhere wants the writes of all nodes with kernels of their own, each read on another one.
func (d drill) readElsewhere(ctx context.Context) error {
	rows, err := d.rows(ctx)
	if err != nil {
		return err
	}
	if len(rows) != min(d.Cluster.Guests, 3) {
		return fmt.Errorf("the report has replicated volumes on %d nodes", len(rows))
	}
	for _, w := range rows {
		if w.ReadOn == "" || w.ReadOn == w.Host {
			return fmt.Errorf("what %s wrote was read on %q", w.Host, w.ReadOn)
		}
	}
	return nil
}
