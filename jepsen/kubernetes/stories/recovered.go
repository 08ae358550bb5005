package stories

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/kit"
	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/story"
)

var recovered = story.Story{
	Name: "recovered", Tells: "the disks of two of three controllers are lost for good under a pod that writes; the third becomes the cluster by the page's commands, and has every volume",
	Limit: 30 * time.Minute, Tell: tellRecovered, Needs: byHelm,
}

// recoverPod has the claim of the controller that is left. docs/failures.md has the same, with the image of a release.
const recoverPod = `apiVersion: v1
kind: Pod
metadata: {name: recover, namespace: holdfast}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  securityContext: {runAsUser: 9800, runAsGroup: 9800, fsGroup: 9800}
  tolerations: [{operator: Exists}]
  containers:
    - name: holdfast
      image: localhost/holdfast:%s
      imagePullPolicy: Never
      command: [/bin/sh, -c, "exec sleep 86400"]
      volumeMounts: [{name: data, mountPath: /var/lib/holdfast}]
  volumes:
    - name: data
      persistentVolumeClaim: {claimName: data-holdfast-controller-0}
`

// The commands of docs/failures.md for a quorum that is lost for good, in order.
const (
	controllersStopped = `kubectl -n holdfast scale statefulset/holdfast-controller --replicas=0
kubectl -n holdfast wait pod/holdfast-controller-0 pod/holdfast-controller-1 pod/holdfast-controller-2 --for=delete --timeout=5m`
	recoverStarted = `kubectl apply -f "%s"
kubectl -n holdfast wait pod/recover --for=condition=Ready --timeout=3m`
	recoverPlan = `kubectl -n holdfast exec recover -- /usr/bin/holdfast recover --data-dir /var/lib/holdfast/controller ` +
		`--advertise holdfast-controller-0.holdfast-controller.holdfast.svc:9800`
	controllersStarted = `kubectl -n holdfast delete pod recover
kubectl -n holdfast scale statefulset/holdfast-controller --replicas=3`
)

func tellRecovered(ctx context.Context, t *story.Teller) error {
	if err := writerOn(ctx, t, "writer", ""); err != nil {
		return err
	}
	before, err := whole(ctx, t)
	if err != nil {
		return err
	}
	for _, number := range []int{1, 2} {
		if _, err := loseDisk(ctx, t, number); err != nil {
			return err
		}
	}
	if err := noQuorum(ctx, t); err != nil {
		return err
	}
	return all(
		func() error {
			return t.Time("controllers stopped, and a pod on the claim that is left", func() error { return beginRecovery(ctx, t) })
		},
		func() error { return t.Time("recover", func() error { return recoverHere(ctx, t) }) },
		func() error {
			return t.Time("start to three controllers that vote", func() error { return startRecovered(ctx, t) })
		},
		func() error { return adoptHosts(ctx, t) },
		func() error { return afterRecovery(ctx, t, before) },
	)
}

// noQuorum wants the log to decide nothing any more: else the story would be about something else.
func noQuorum(ctx context.Context, t *story.Teller) error {
	return kit.Until(ctx, patience, func() error {
		if _, err := look(ctx, t); err != nil {
			return nil
		}
		return errors.New("there is a quorum without two of three controllers")
	})
}

func beginRecovery(ctx context.Context, t *story.Teller) error {
	file := filepath.Join(t.Cluster.Dir, "recover.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, recoverPod, t.Settings.Tag), 0o644); err != nil {
		return err
	}
	return errors.Join(t.In(namespace).Delete(ctx, "pods", "recover", true), runPage(ctx, t, controllersStopped),
		runPage(ctx, t, fmt.Sprintf(recoverStarted, file)))
}

var notCompared = regexp.MustCompile(`([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}) at \S+: not compared`)

// recoverHere asks for the plan without naming anybody, which is refused and names the members that are missing, and then recovers
// without those.
func recoverHere(ctx context.Context, t *story.Teller) error {
	plan, err := page(ctx, t, recoverPlan)
	if err == nil {
		return fmt.Errorf("recover was not refused although two members were not named: %s", plan)
	}
	missing := notCompared.FindAllStringSubmatch(plan, -1)
	if len(missing) != 2 {
		return fmt.Errorf("the plan names %d members that are missing, not 2: %s: %w", len(missing), plan, err)
	}
	without := fmt.Sprintf("%s --without %s --without %s", recoverPlan, missing[0][1], missing[1][1])
	return errors.Join(runPage(ctx, t, without), runPage(ctx, t, without+" --yes"))
}

func startRecovered(ctx context.Context, t *story.Teller) error {
	if err := runPage(ctx, t, controllersStarted); err != nil {
		return err
	}
	_, err := whole(ctx, t)
	return err
}

// adoptHosts takes in what the hosts know, by the incarnation that the plan shows.
func adoptHosts(ctx context.Context, t *story.Teller) error {
	var plan struct {
		Incarnation uint64
		Summary     string
	}
	if err := kit.Until(ctx, patience, func() error { return ask(ctx, t, &plan, "adopt") }); err != nil {
		return err
	}
	t.Note("the plan to adopt: %s", plan.Summary)
	return t.Time("adopt --yes --wait", func() error {
		return runPage(ctx, t, fmt.Sprintf("timeout 300 kubectl holdfast adopt --incarnation %d --yes --wait", plan.Incarnation))
	})
}

// afterRecovery wants the same cluster in a later life, with every volume, and all to go on.
func afterRecovery(ctx context.Context, t *story.Teller, before known) error {
	now, err := whole(ctx, t)
	if err := errors.Join(err, now.goesOn(before)); err != nil {
		return err
	}
	if now.Incarnation <= before.Incarnation {
		return fmt.Errorf("the cluster is in incarnation %d, and was in %d", now.Incarnation, before.Incarnation)
	}
	return errors.Join(
		writesOn(ctx, t, "writer"),
		t.Time("claim to Bound afterwards", func() error { return madeMeanwhile(ctx, t, "afterwards") }),
		t.Time("pod with a new claim to Ready", func() error { return writerOn(ctx, t, "other", "") }),
	)
}
