package stories

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/kit"
	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/machine"
	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/story"
)

const prometheusUnit, prometheusAt = "prometheus", "127.0.0.1:9090"

// runPrometheus has the control plane's machine run one that does what the objects of the chart say.
func runPrometheus(ctx context.Context, t *story.Teller) error {
	all, err := readMonitors(ctx, t)
	if err != nil {
		return err
	}
	at := func(name string) string { return filepath.Join(t.Cluster.Dir, name) }
	config, err := configOf(all, at(podsFile), at("alerts.json"))
	alerting, failed := rulesOf(all)
	if err := errors.Join(err, failed, writeTargets(ctx, t), os.WriteFile(at("prometheus.json"), config, 0o644), os.WriteFile(at("alerts.json"), alerting, 0o644)); err != nil {
		return err
	}
	return machine.Add(t.Cluster.ControlPlane(), machine.Unit{Name: prometheusUnit, Args: []string{
		"/usr/bin/prometheus", "--config.file=" + at("prometheus.json"), "--storage.tsdb.path=/var/lib/prometheus-of-stories",
		"--web.listen-address=" + prometheusAt, "--log.level=warn",
	}})
}

// podsFile is the file of the cluster's folder with what podsFound found.
const podsFile = "pods.json"

func writeTargets(ctx context.Context, t *story.Teller) error {
	found, err := podsFound(ctx, t)
	if err != nil {
		return err
	}
	text, err := json.Marshal(found)
	if err != nil {
		return err
	}
	file := filepath.Join(t.Cluster.Dir, podsFile)
	return errors.Join(os.WriteFile(file+".part", text, 0o644), os.Rename(file+".part", file))
}

// keepTargets writes them again and again until the context ends.
func keepTargets(ctx context.Context, t *story.Teller) {
	for kit.Sleep(ctx, 2*time.Second) == nil {
		_ = writeTargets(ctx, t) // the API server may be busy: the next time
	}
}

func endPrometheus(t *story.Teller) {
	if err := machine.Drop(t.Cluster.ControlPlane(), prometheusUnit); err != nil {
		t.Note("Prometheus runs on: %v", err)
	}
}

// untilHolds waits until an expression has a series.
func untilHolds(ctx context.Context, expr string) error {
	return kit.Until(ctx, 15*time.Minute, func() error {
		holds, err := holds(ctx, expr)
		if err == nil && !holds {
			err = fmt.Errorf("Prometheus has nothing for %s", expr)
		}
		return err
	})
}

func holds(ctx context.Context, expr string) (bool, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+prometheusAt+"/api/v1/query?query="+url.QueryEscape(expr), nil)
	if err != nil {
		return false, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false, err
	}
	defer response.Body.Close()
	var answer struct {
		Error string
		Data  struct{ Result []any }
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return false, fmt.Errorf("ask Prometheus for %s: %s: %w", expr, response.Status, err)
	}
	if answer.Error != "" {
		return false, fmt.Errorf("ask Prometheus for %s: %s", expr, answer.Error)
	}
	return len(answer.Data.Result) > 0, nil
}
