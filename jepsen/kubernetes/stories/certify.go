package stories

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/story"
)

var certified = story.Story{
	Name: "certify", Tells: "pods of `certify --write` write on every node while leadership is handed over, and controllers and node plugins are restarted, in a namespace that admits restricted pods alone; what was acknowledged reads back, and nothing is left, also of a run that is killed or stopped",
	Limit: 20 * time.Minute, Tell: tellCertified, Needs: byHelm,
}

// drill is the command, but for how it ends.
type drill struct {
	*story.Teller
	class  string // of the claims that are written to
	folder string
}

func newDrill(t *story.Teller, class string) (drill, error) {
	d := drill{t, class, filepath.Join(t.Cluster.Dir, "certified")}
	return d, errors.Join(os.RemoveAll(d.folder), os.MkdirAll(d.folder, 0o700))
}

func tellCertified(ctx context.Context, t *story.Teller) error {
	d, err := newDrill(t, late)
	if err != nil {
		return err
	}
	return all(
		func() error {
			return t.Patch(ctx, "namespaces", t.Namespace, `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`)
		},
		func() error { return d.onlyShown(ctx) },
		func() error { return d.killed(ctx) },
		func() error {
			return t.Time("the whole run, which removes what the killed one left", func() error { return d.whole(ctx) })
		},
		func() error { return d.stopped(ctx) },
	)
}

// command has the flags that all runs have; those of the drill are small.
func (d drill) command(more string) string {
	return fmt.Sprintf("kubectl holdfast certify --write --write-class %s --write-namespace %s --write-size 64MiB --size 8MiB --burst 3 --leftovers-older-than 0s %s",
		d.class, d.Namespace, more)
}

func (d drill) report() string { return filepath.Join(d.folder, "report.json") }

// onlyShown wants the plan to make nothing.
func (d drill) onlyShown(ctx context.Context) error {
	plan, err := page(ctx, d.Teller, d.command("--restart-controllers"))
	if err != nil {
		return err
	}
	if !strings.Contains(plan, "meanwhile a pod on each of the hosts") {
		return fmt.Errorf("the plan does not say that pods write: %s", plan)
	}
	return d.nothing(ctx)
}

// nothing wants no pod, no claim and no volume of the drill to be there.
func (d drill) nothing(ctx context.Context) error {
	return all(
		func() error { return noneLeft(ctx, d.Teller, "pods") },
		func() error { return noneLeft(ctx, d.Teller, "persistentvolumeclaims") },
		func() error { return noVolumes(ctx, d.Teller) },
	)
}

// begin starts a run, waits until each node's pod runs, and ends it by a signal.
func (d drill) begin(ctx context.Context, end string) error {
	_, err := page(ctx, d.Teller, d.command("--yes --out "+d.report()+".none")+` >"`+d.folder+`/drill.log" 2>&1 &
pid=$!
for i in $(seq 180); do
  running=$(kubectl -n `+d.Namespace+` get pods --no-headers 2>/dev/null | grep -c Running) || true
  test "$running" = 3 && break
  kill -0 $pid || { cat "`+d.folder+`/drill.log" >&2; exit 9; }
  sleep 1
done
sleep 3
kill -`+end+` $pid
wait $pid`)
	if err == nil {
		return fmt.Errorf("a run that got %s ended as if it had not", end)
	}
	if strings.Contains(err.Error(), "exit status 9") {
		return err
	}
	return nil
}

// killed wants a killed run to leave its pods: else the next one has nothing to remove.
func (d drill) killed(ctx context.Context) error {
	if err := d.begin(ctx, "KILL"); err != nil {
		return err
	}
	pods, err := d.List(ctx, "pods", "")
	if err != nil {
		return err
	}
	if len(pods) != d.Cluster.Nodes {
		return fmt.Errorf("a killed run left %d pods, not %d", len(pods), d.Cluster.Nodes)
	}
	return nil
}

// stopped wants a run that is stopped to remove what it made.
func (d drill) stopped(ctx context.Context) error {
	return all(
		func() error { return d.begin(ctx, "TERM") },
		func() error { return d.nothing(ctx) },
	)
}

// drilled is a row of the report.
type drilled struct {
	Host         string
	ReadOn       string `json:"read_on"`
	Volume       string
	Acknowledged uint64
	Longest      time.Duration `json:"longest_pause"`
	Verified     bool
	Why          string
}

// whole wants every node's writes to be verified, and a claim of somebody else, whatever its name, to stay.
func (d drill) whole(ctx context.Context) error {
	other := claim{name: "holdfast-certify-mine", class: late, size: "64Mi"}
	if err := d.Apply(ctx, other.manifest()); err != nil {
		return err
	}
	if _, err := page(ctx, d.Teller, d.command("--restart-controllers --restart-node-plugins --yes --out "+d.report())); err != nil {
		return err
	}
	if _, err := d.Get(ctx, "persistentvolumeclaims", other.name); err != nil {
		return fmt.Errorf("somebody else's claim: %w", err)
	}
	return all(
		func() error { return gone(ctx, d.Teller, "persistentvolumeclaims", other.name) },
		func() error { return d.nothing(ctx) },
		func() error { return d.signed(ctx) },
	)
}

// signed wants each of so many nodes' writes to be verified.
func (d drill) signed(ctx context.Context) error {
	rows, err := d.rows(ctx)
	if err != nil {
		return err
	}
	if len(rows) != min(d.Cluster.Nodes+d.Cluster.Guests, 3) {
		return fmt.Errorf("the report has writes on %d nodes", len(rows))
	}
	return nil
}

// rows reads the report as who gets it does, and wants the writes to be verified.
func (d drill) rows(ctx context.Context) ([]drilled, error) {
	text, err := page(ctx, d.Teller, "kubectl holdfast certify verify "+d.report()+" -o json")
	if err != nil {
		return nil, err
	}
	var report struct{ Writes []drilled }
	if err := json.Unmarshal([]byte(text), &report); err != nil {
		return nil, fmt.Errorf("read the report: %w", err)
	}
	for _, w := range report.Writes {
		d.Note("%s: %d writes acknowledged, longest pause %s, read on %s", w.Host, w.Acknowledged, w.Longest.Round(time.Millisecond), w.ReadOn)
		if !w.Verified || w.Volume == "" || w.Acknowledged < 100 {
			return nil, fmt.Errorf("the writes on %s: %+v", w.Host, w)
		}
	}
	return report.Writes, nil
}
