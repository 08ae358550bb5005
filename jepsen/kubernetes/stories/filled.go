package stories

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/cluster"
	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/kit"
	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/story"
)

// The volumes that fill the pool of a node that joined late: together they may be promised, and have more than is there.
const filledSize, fillers = "2Gi", 3

// fill writes files in the background until one fails, and says so.
const fill = `(n=0; while dd if=/dev/urandom of=/data/fill-$n bs=1M count=64 conv=fsync; do n=$((n+1)); done; echo full >/full) >/dev/null 2>&1 </dev/null &`

// overwrite writes what write wrote once more in its place, durably, with the same content.
const overwrite = `cp /data/kept /kept && dd if=/kept of=/data/kept bs=1M conv=notrunc,fsync 2>/dev/null && echo done`

func tellFilled(ctx context.Context, t *story.Teller) error {
	number := lateNumber(t, 2)
	if err := join(ctx, t, number); err != nil {
		return err
	}
	node := cluster.NodeName(number)
	sum, err := fillPool(ctx, t, node)
	if err != nil {
		return err
	}
	return all(
		func() error { return nodeEventSays(ctx, t, node, "make it larger, or delete volumes") },
		func() error { return same(ctx, t, "kept", "kept", sum) },
		func() error { return expect(ctx, t, "kept", overwrite, "done") },
		func() error { return makeRoom(ctx, t) },
		func() error { return same(ctx, t, "kept", "kept", sum) },
		func() error { return removeAll(ctx, t, "pods", "pvc") },
		func() error { return leaves(ctx, t, number) },
	)
}

// fillPool has a pod keep a file on the node, and others fill its pool. It returns the file's sum.
func fillPool(ctx context.Context, t *story.Teller, node string) (sum string, err error) {
	if err := start(ctx, t, claim{name: "kept", class: late, size: "512Mi"}, pod{name: "kept", node: node}); err != nil {
		return "", err
	}
	if sum, err = write(ctx, t, "kept", "kept"); err != nil {
		return "", err
	}
	for i := range fillers {
		name := fmt.Sprintf("filler-%d", i)
		if err := start(ctx, t, claim{name: name, class: late, size: filledSize}, pod{name: name, node: node}); err != nil {
			return sum, err
		}
	}
	for i := range fillers { // once all are there: a volume is made only where there is room for all of it
		if _, err := t.Exec(ctx, fmt.Sprintf("filler-%d", i), fill); err != nil {
			return sum, err
		}
	}
	return sum, t.Time("until no pod can write", func() error {
		return kit.Until(ctx, 2*patience, func() error { return allFull(ctx, t) })
	})
}

func allFull(ctx context.Context, t *story.Teller) (err error) {
	for i := range fillers {
		err = errors.Join(err, expect(ctx, t, fmt.Sprintf("filler-%d", i), "cat /full", "full"))
	}
	return err
}

// makeRoom deletes the pods and claims that fill the pool, starts the pod that is left again, as its filesystem may have become read-only,
// and waits until it writes what is new.
func makeRoom(ctx context.Context, t *story.Teller) error {
	for i := range fillers {
		name := fmt.Sprintf("filler-%d", i)
		if err := errors.Join(t.Delete(ctx, "pods", name, false), t.Delete(ctx, "persistentvolumeclaims", name, false)); err != nil {
			return err
		}
	}
	return t.Time("claims deleted to new writes of the pod that is left, started again", func() error {
		return all(
			func() error { return kit.Until(ctx, patience, func() error { return claimsAre(ctx, t, 1) }) },
			func() error { return gone(ctx, t, "pods", "kept") },
			func() error {
				return t.Apply(ctx, pod{name: "kept", claim: "kept", node: cluster.NodeName(lateNumber(t, 2))}.manifest())
			},
			func() error { return running(ctx, t, "kept") },
			func() error {
				return kit.Until(ctx, patience, func() error {
					_, err := t.Exec(ctx, "kept", "dd if=/dev/urandom of=/data/new bs=1M count=100 conv=fsync 2>&1")
					return err
				})
			},
		)
	})
}

// claimsAre wants so many claims to have volumes, and none to wait for its end.
func claimsAre(ctx context.Context, t *story.Teller, want int) error {
	return errors.Join(noneEnding(ctx, t), volumesAre(ctx, t, want))
}
