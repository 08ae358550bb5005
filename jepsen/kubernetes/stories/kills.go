package stories

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/kit"
	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/story"
)

var kills = story.Story{
	Name: "kills", Tells: "of 200 claims that are Bound the oldest goes and another one comes, some used by pods, while sidecars, controllers, node plugins and kubelets are killed at random: each claim has one volume, and the hosts have no more than those",
	Limit: 3 * time.Hour, Tell: tellKills,
}

// victims are the programs that are killed.
var victims = []string{"csi-provisioner", "csi-attacher", "csi-resizer", "csi-snapshotter", "holdfast controller", "holdfast node", "holdfast kube", "kubelet"}

const kept = 200

// podEvery is after how many rounds another pod uses a claim, podLasts for how many.
const podEvery, podLasts = 8, 40

func tellKills(ctx context.Context, t *story.Teller) error {
	var before int
	err := kit.Until(ctx, patience, func() (err error) {
		before, err = backingOfAll(ctx, t)
		return err
	})
	if err != nil {
		return err
	}
	if err := t.Time(fmt.Sprintf("%d claims at once to all Bound, before the first kill", kept), func() error {
		return claims(ctx, t, kept, func(name string) string { return claim{name: name, class: immediate, size: "100Mi"}.manifest() })
	}); err != nil {
		return err
	}
	rounds, killed := 0, map[string]int{}
	for end := time.Now().Add(time.Duration(t.Settings.Minutes) * time.Minute); time.Now().Before(end); rounds++ {
		if err := errors.Join(churn(ctx, t, rounds), churnPods(ctx, t, rounds)); err != nil {
			return err
		}
		if err := killOne(ctx, t, killed); err != nil {
			return err
		}
	}
	t.Note("%d claims made and as many deleted in %d min, kills %v", rounds, t.Settings.Minutes, killed)
	if missed := missing(killed); len(missed) > 0 && t.Settings.Minutes >= 5 {
		return fmt.Errorf("no process of %s was found on any node in %d rounds: nothing is shown of them", strings.Join(missed, ", "), rounds)
	}
	return all(
		func() error { return settled(ctx, t, before) },
		func() error { return removed(ctx, t, before) },
	)
}

// missing are the programs of which none was killed.
func missing(killed map[string]int) (names []string) {
	for _, name := range victims {
		if killed[name] == 0 {
			names = append(names, name)
		}
	}
	return names
}

func churned(number int) string { return fmt.Sprintf("c%03d", number) }

// churn makes a claim and deletes the oldest one, so that there are as many as before.
func churn(ctx context.Context, t *story.Teller, round int) error {
	if err := t.Apply(ctx, claim{name: churned(kept + round), class: immediate, size: "100Mi"}.manifest()); err != nil {
		return err
	}
	return t.Delete(ctx, "persistentvolumeclaims", churned(round), false)
}

// churnPods now and then has a pod use the newest claim, and deletes the one of some rounds before.
func churnPods(ctx context.Context, t *story.Teller, round int) error {
	if round%podEvery != 0 {
		return nil
	}
	p := pod{name: fmt.Sprintf("p%d", round), claim: churned(kept + round)}
	return errors.Join(t.Apply(ctx, p.manifest()), t.Delete(ctx, "pods", fmt.Sprintf("p%d", round-podLasts), false))
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

// settled deletes the pods, and wants every claim that is left to have a volume of its own: in Kubernetes, in the log and on the hosts.
func settled(ctx context.Context, t *story.Teller, before int) error {
	if _, err := t.Kubectl(ctx, "delete", "pods", "--all", "--wait=false"); err != nil {
		return err
	}
	return t.Time(fmt.Sprintf("last kill to %d claims Bound, each with one volume", kept), func() error {
		return kit.Until(ctx, 5*patience, func() error {
			return all(
				func() error { return noneLeft(ctx, t, "pods") },
				func() error { return noneEnding(ctx, t) },
				func() error { return oneVolumeEach(ctx, t, kept) },
				func() error { return noAttachments(ctx, t) },
				func() error { return sameInLog(ctx, t) },
				func() error { return filesAre(ctx, t, before+kept) },
			)
		})
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
			return all(
				func() error { return noneLeft(ctx, t, "persistentvolumeclaims") },
				func() error { return noVolumes(ctx, t) },
				func() error { return sameInLog(ctx, t) },
				func() error { return filesAre(ctx, t, before) },
			)
		})
	})
}
