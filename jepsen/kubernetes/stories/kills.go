package stories

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/cluster"
	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/kit"
	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/story"
)

var kills = story.Story{
	Name: "kills", Tells: "200 claims come and go while sidecars, controllers, node plugins and kubelets are killed at random: each claim has one volume, and the hosts have no more than those",
	Limit: 3 * time.Hour, Tell: tellKills,
}

// victims are the programs that are killed.
var victims = []string{"csi-provisioner", "csi-attacher", "csi-resizer", "csi-snapshotter", "holdfast controller", "holdfast node", "holdfast kube", "kubelet"}

const kept = 200

func tellKills(ctx context.Context, t *story.Teller) error {
	before, err := backing(ctx, t)
	if err != nil {
		return err
	}
	rounds, killed := 0, map[string]int{}
	for end := time.Now().Add(time.Duration(t.Settings.Minutes) * time.Minute); time.Now().Before(end); rounds++ {
		if err := churn(ctx, t, rounds); err != nil {
			return err
		}
		if err := killOne(ctx, t, killed); err != nil {
			return err
		}
	}
	t.Note("%d rounds, kills %v", rounds, killed)
	return errors.Join(settled(ctx, t, rounds), removed(ctx, t, before))
}

// churn makes a claim, and deletes the one that was made 200 rounds before.
func churn(ctx context.Context, t *story.Teller, round int) error {
	if err := t.Apply(ctx, claim{name: fmt.Sprintf("c%d", round), class: immediate, size: "100Mi"}.manifest()); err != nil {
		return err
	}
	return t.Delete(ctx, "persistentvolumeclaims", fmt.Sprintf("c%d", round-kept), false)
}

// killOne kills one process at random, and then waits a moment: shorter than anything takes to come back.
func killOne(ctx context.Context, t *story.Teller, killed map[string]int) error {
	node := t.Cluster.Node(1 + rand.IntN(t.Cluster.Nodes))
	program := victims[rand.IntN(len(victims))]
	pids, err := node.Processes(program)
	if err != nil {
		return err
	}
	if len(pids) > 0 && syscall.Kill(pids[rand.IntN(len(pids))], syscall.SIGKILL) == nil {
		killed[program]++
	}
	return kit.Sleep(ctx, time.Duration(200+rand.IntN(1000))*time.Millisecond)
}

// settled wants every claim that is left to have a volume of its own.
func settled(ctx context.Context, t *story.Teller, rounds int) error {
	want := min(rounds, kept)
	return t.Time(fmt.Sprintf("last kill to %d claims Bound and no other volume", want), func() error {
		return kit.Until(ctx, 5*patience, func() error { return oneVolumeEach(ctx, t, want) })
	})
}

func oneVolumeEach(ctx context.Context, t *story.Teller, want int) error {
	all, err := t.List(ctx, "persistentvolumes", "")
	if err != nil {
		return err
	}
	handles := map[string]string{}
	for _, v := range all {
		if kit.Text(&v, "spec", "claimRef", "namespace") != t.Namespace {
			continue
		}
		handle := kit.Text(&v, "spec", "csi", "volumeHandle")
		if other, ok := handles[handle]; ok {
			return fmt.Errorf("%s and %s are one volume", other, v.GetName())
		}
		if phase := kit.Text(&v, "status", "phase"); phase != "Bound" {
			return fmt.Errorf("%s is %s", v.GetName(), phase)
		}
		handles[handle] = v.GetName()
	}
	if len(handles) != want {
		return fmt.Errorf("there are %d volumes, not %d", len(handles), want)
	}
	return nil
}

// removed deletes what is left, and wants the hosts to have what they had before: nothing is counted that only we say of ourselves.
func removed(ctx context.Context, t *story.Teller, before int) error {
	return t.Time("deletion of all to nothing left on the hosts", func() error {
		if _, err := t.Kubectl(ctx, "delete", "pvc", "--all", "--wait=false"); err != nil {
			return err
		}
		return kit.Until(ctx, 5*patience, func() error {
			left, err := backing(ctx, t)
			if err != nil {
				return err
			}
			if left != before {
				return fmt.Errorf("the hosts have %d files of volumes, not %d as before", left, before)
			}
			return noVolumes(ctx, t)
		})
	})
}

// backing is how many files of volumes the pools of all hosts have.
func backing(ctx context.Context, t *story.Teller) (int, error) {
	count := 0
	for n := 1; n <= t.Cluster.Nodes; n++ {
		out, err := t.Cluster.Node(n).Exec(ctx, "find", cluster.PoolAt, "-type", "f", "-size", "+1M")
		if err != nil {
			return 0, err
		}
		count += len(strings.Fields(out))
	}
	return count, nil
}
