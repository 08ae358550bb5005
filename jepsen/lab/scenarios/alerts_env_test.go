package scenarios

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/prometheus"
)

const (
	// longAgo is when the lab of the alerts begins: longer ago than a verification or a backup may be.
	longAgo = 31 * 24 * time.Hour
	// backups is the folder that the controllers write them to, of each guest one; backupsAway is where it is while it cannot be found.
	backups, backupsAway = "/lab/backups", "/lab/backups-away"
	alertRules           = "../../../deploy/chart/files/alerts.yaml"
)

// alertsLayout is three guests that no verification is made in, with backups; the log of the third one's controller is on a disk of its own.
var alertsLayout = layout{
	behind: longAgo, disks: []int64{1 << 30}, setup: setUpLogDisk, firstNodeArgs: []string{"--verify-interval", "0"},
	controllerArgs: []string{"--backup-to", backups, "--backup-interval", "5s", "--backup-increments", "0"},
}

// alertsEnv is shared by the scenarios of alerts, made by the first of them and closed by TestMain; agedVolume has been in it from the beginning.
var (
	alertsEnv  *env
	agedVolume *volume
)

// closeAlertsEnv closes it before another lab is made: no scenario needs two.
func closeAlertsEnv(t *testing.T) {
	if alertsEnv != nil {
		alertsEnv.cluster.Close()
		require.NoError(t, alertsEnv.lab.Close())
		alertsEnv, agedVolume = nil, nil
	}
}

// watched is a lab with a Prometheus that scrapes its controllers and nodes.
type watched struct {
	*env
	*prometheus.Watch
	t *testing.T
}

// watchAlerts is the lab of the alerts, after a month in which nothing was verified and no backup was written, as the target went away.
func watchAlerts(t *testing.T) *watched {
	t.Helper()
	prometheus.Require(t)
	w := sharedScenario(t, &alertsEnv, alertsLayout)
	if agedVolume == nil {
		w.letAMonthPass(t)
	}
	return w.watch(t)
}

// watch has a Prometheus scrape all processes.
func (w *env) watch(t *testing.T) *watched {
	t.Helper()
	controllers, nodes := prometheus.Job{Name: "holdfast-controller"}, prometheus.Job{Name: "holdfast-node"}
	for i := range w.lab.Guests() {
		address, err := w.cluster.ControllerMetrics(i + 1)
		require.NoError(t, err)
		controllers.Targets = append(controllers.Targets, address)
		if w.layout.nodes == 0 || i < w.layout.nodes {
			address, err = w.cluster.NodeMetrics(i + 1)
			require.NoError(t, err)
			nodes.Targets = append(nodes.Targets, address)
		}
	}
	return &watched{env: w, Watch: prometheus.StartWatch(t, alertRules, controllers, nodes), t: t}
}

// letAMonthPass makes a volume and a backup, and then the present comes.
func (w *env) letAMonthPass(t *testing.T) {
	t.Helper()
	v := &volume{name: "aged", size: 32 * mi, block: true}
	require.NoError(t, w.co.create(t.Context(), v, []string{"n1", "n2"}, map[string]string{"replicas": "2"}))
	w.awaitInSync(t, v)
	eventually(t, timeout, "there is a backup", func(context.Context) error {
		if len(w.backups(t)) == 0 {
			return fmt.Errorf("nobody has any")
		}
		return nil
	})
	w.moveBackups(t, backups, backupsAway)
	require.NoError(t, w.lab.StepClocks(t.Context(), longAgo))
	agedVolume = v
}

// backups are the files of all guests.
func (w *env) backups(t *testing.T) []string {
	all, err := filepath.Glob(filepath.Join(w.lab.Dir(), "n*", backups, "*.*"))
	require.NoError(t, err)
	return all
}

// moveBackups has the target of all controllers go away, or come back.
func (w *env) moveBackups(t *testing.T, from, to string) {
	t.Helper()
	for _, g := range w.lab.Guests() {
		w.mustExec(t, g.Name(), fmt.Sprintf("mv %s %s", from, to))
	}
}
