package stories

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/kit"
	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/machine"
	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/story"
)

var pod0 = story.Story{
	Name: "pod-0-lost", Tells: "the disk of controller 0 is lost under a pod that writes; another, empty one takes its place by the page's commands, and founds no second cluster",
	Limit: 25 * time.Minute, Tell: tellPod0, Needs: byHelm,
}

// lostNode are the commands of docs/failures.md for a controller whose node is gone.
const lostNode = `kubectl -n holdfast delete pvc data-holdfast-controller-0 --wait=false
kubectl delete pv holdfast-controller-0 --wait=false
kubectl -n holdfast delete pod holdfast-controller-0 --force --grace-period=0
kubectl wait pv/holdfast-controller-0 --for=delete --timeout=2m`

func tellPod0(ctx context.Context, t *story.Teller) error {
	if err := writerOn(ctx, t, "writer", ""); err != nil {
		return err
	}
	before, err := whole(ctx, t)
	if err != nil {
		return err
	}
	founder, err := founderOf(ctx, t)
	if err != nil {
		return err
	}
	host, err := loseDisk(ctx, t, 0)
	if err != nil {
		return err
	}
	return all(
		func() error {
			return t.Time("disk lost to a claim Bound", func() error { return madeMeanwhile(ctx, t, "disk-lost") })
		},
		func() error {
			return t.Time("claim, volume and pod of the controller deleted", func() error { return runPage(ctx, t, lostNode) })
		},
		func() error {
			return t.Time("claim to Bound while it is away", func() error { return madeMeanwhile(ctx, t, "pod-away") })
		},
		func() error {
			return t.Time("helm upgrade to the pod running, empty", func() error { return emptyAgain(ctx, t, host) })
		},
		func() error { return replaceMember(ctx, t, 0) },
		func() error { return afterPod0(ctx, t, before, founder) },
	)
}

func runPage(ctx context.Context, t *story.Teller, commands string) error {
	_, err := page(ctx, t, commands)
	return err
}

// emptyAgain has helm make the volume again, and wants the pod to run in a folder in which kube-init decided to found nothing.
func emptyAgain(ctx context.Context, t *story.Teller, host machine.Config) error {
	if err := runPage(ctx, t, `helm upgrade holdfast "$CHART" -n holdfast -f "$VALUES"`); err != nil {
		return err
	}
	if err := t.In(namespace).Wait(ctx, patience, "pods", controllerName(0), kit.Phase("Running")); err != nil {
		return err
	}
	verdict, err := host.Exec(ctx, "cat", controllerFolder(0)+"/controller/kube-init.json")
	if err == nil && !strings.Contains(verdict, `"bootstrap":false`) {
		err = fmt.Errorf("kube-init decided that the empty folder founds a cluster: %s", verdict)
	}
	return err
}

// replaceMember has the empty controller take the place of the member that was lost. A controller that was started since that one answered
// last knows no name of it: then it is called by its address.
func replaceMember(ctx context.Context, t *story.Teller, number int) error {
	var list struct{ Members []member }
	if err := ask(ctx, t, &list, "members", "list"); err != nil {
		return err
	}
	at := slices.IndexFunc(list.Members, func(m member) bool { return strings.HasPrefix(m.Address, controllerName(number)+".") })
	if at < 0 {
		return fmt.Errorf("no member has the address of %s: %+v", controllerName(number), list.Members)
	}
	called := controllerName(number)
	if list.Members[at].Name != called {
		called = list.Members[at].Address
		t.Note("the list had no name of the lost member, which was called by its address")
	}
	var plan struct {
		ID    string `json:"member_id"`
		Steps []struct{ Action, State, Detail string }
	}
	if err := ask(ctx, t, &plan, "members", "replace", called); err != nil {
		return err
	}
	if plan.ID != list.Members[at].ID {
		return fmt.Errorf("the plan to replace %s is about member %s, and the list has %s there: %+v", called, plan.ID, list.Members[at].ID, plan.Steps)
	}
	return t.Time("members replace --yes --wait", func() error {
		return runPage(ctx, t, "kubectl holdfast members replace "+plan.ID+" --yes --wait")
	})
}

// afterPod0 wants three controllers of the same cluster, and everything to go on.
func afterPod0(ctx context.Context, t *story.Teller, before known, founder string) error {
	var now known
	err := t.Time("to three controllers that vote", func() (err error) {
		now, err = whole(ctx, t)
		return errors.Join(err, now.goesOn(before))
	})
	if err != nil {
		return err
	}
	if now.Incarnation != before.Incarnation {
		return fmt.Errorf("the cluster is in incarnation %d, and was in %d", now.Incarnation, before.Incarnation)
	}
	after, err := founderOf(ctx, t)
	if err == nil && after != founder {
		err = fmt.Errorf("the ConfigMap holdfast-cluster says %s, and said %s", after, founder)
	}
	return errors.Join(err, t.Time("claim to Bound afterwards", func() error { return madeMeanwhile(ctx, t, "afterwards") }),
		writesOn(ctx, t, "writer"), writerOn(ctx, t, "other", ""))
}

// founderOf is which object says who founded the cluster, and what it says.
func founderOf(ctx context.Context, t *story.Teller) (string, error) {
	o, err := t.In(namespace).Get(ctx, "configmaps", "holdfast-cluster")
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s %v", o.GetUID(), o.Object["data"]), nil
}
