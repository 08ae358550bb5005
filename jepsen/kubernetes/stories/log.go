package stories

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/kit"
	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/story"
)

// member is a controller, as the log has it.
type member struct {
	Name      string `json:"id"`
	ID        string `json:"member_id"`
	Address   string
	Role      string
	Voter     bool
	Reachable bool
	Detail    string
}

// known is what the log says of the cluster.
type known struct {
	Cluster     string `json:"cluster_id"`
	Incarnation uint64
	Leader      string
	Members     []member
	volumes     map[string]string // the ids of all, and their phases
}

// look reads the state of the log, which needs a quorum.
func look(ctx context.Context, t *story.Teller) (known, error) {
	var all struct {
		Volumes []struct{ ID, Phase string }
	}
	k := known{volumes: map[string]string{}}
	if err := errors.Join(ask(ctx, t, &k, "status"), ask(ctx, t, &all, "volumes")); err != nil {
		return k, err
	}
	for _, v := range all.Volumes {
		k.volumes[v.ID] = v.Phase
	}
	return k, nil
}

// goesOn wants the cluster to be the one of before, with every volume of then.
func (k known) goesOn(before known) error {
	if k.Cluster == "" || k.Cluster != before.Cluster {
		return fmt.Errorf("the cluster is %q now, and was %q: another one was founded", k.Cluster, before.Cluster)
	}
	var gone []string
	for id := range before.volumes {
		if _, ok := k.volumes[id]; !ok {
			gone = append(gone, id)
		}
	}
	slices.Sort(gone)
	if len(gone) > 0 {
		return fmt.Errorf("the log does not know these of %d volumes any more: %s", len(before.volumes), strings.Join(gone, " "))
	}
	return nil
}

// complete wants so many controllers, each of which answers and votes.
func (k known) complete(want int) error {
	for _, m := range k.Members {
		if !m.Voter || !m.Reachable {
			return fmt.Errorf("controller %s (%s): it votes: %t, it answers: %t: %s", m.Name, m.ID, m.Voter, m.Reachable, m.Detail)
		}
	}
	if len(k.Members) != want || k.Leader == "" {
		return fmt.Errorf("there are %d controllers, not %d; the leader is %q", len(k.Members), want, k.Leader)
	}
	return nil
}

// whole waits for three controllers that vote, and for Kubernetes to have them ready, and returns what the log says then.
func whole(ctx context.Context, t *story.Teller) (now known, err error) {
	err = kit.Until(ctx, 2*patience, func() error {
		if now, err = look(ctx, t); err != nil {
			return err
		}
		return now.complete(3)
	})
	return now, errors.Join(err, controllersReady(ctx, t))
}
