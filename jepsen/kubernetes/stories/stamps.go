package stories

import (
	"context"
	"fmt"
	"strconv"

	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/story"
)

// stampOn writes a line with the time of the kernel each 100 ms, and ends the pod's container at the first error.
const stampOn = `while cut -d " " -f 1 /proc/uptime >>/data/lines && sync /data/lines; do usleep 100000; done`

// longest is the longest time between two lines of stampOn, in seconds.
const longest = `awk 'NR > 1 && $1 - last > most {most = $1 - last} {last = $1} END {print most + 0}' /data/lines`

// unnoticed is how many seconds a writer may pause on a machine that has all nodes, whatever is done to the controllers.
const unnoticed = 15

// stampsGoOn wants the pod to write still, without having been started again, and never to have been kept from it for long.
func stampsGoOn(ctx context.Context, t *story.Teller) error {
	if err := t.Wait(ctx, patience, "pods", "writer", restarts(0)); err != nil {
		return err
	}
	if err := expect(ctx, t, "writer", `a=$(wc -l </data/lines); sleep 2; b=$(wc -l </data/lines); test $b -gt $a && echo on`, "on"); err != nil {
		return err
	}
	pause, err := longestPause(ctx, t)
	if err == nil && pause > unnoticed {
		err = fmt.Errorf("the pod could not write for %.1f s", pause)
	}
	return err
}

func longestPause(ctx context.Context, t *story.Teller) (float64, error) {
	text, err := t.Exec(ctx, "writer", longest)
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(text, 64)
}

// notePause says how long the writer was kept from writing at most.
func notePause(ctx context.Context, t *story.Teller) error {
	pause, err := longestPause(ctx, t)
	if err == nil {
		t.Note("the longest time between two writes of the pod, which writes every 0.1 s: %.1f s", pause)
	}
	return err
}
