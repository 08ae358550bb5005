package alerts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// errNoPrometheus is of a machine without Prometheus.
var errNoPrometheus = errors.New("prometheus is missing: install the package prometheus")

// server is a running Prometheus on loopback.
type server struct {
	url   string
	cmd   *exec.Cmd
	done  chan struct{} // closed when it has ended
	ended error         // how; known once done is closed
	log   string        // its file
}

// configText scrapes and evaluates every second, so that a fault is seen while it lasts.
const configText = `global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}
rule_files: [alerts.yaml]
scrape_configs:
  - {job_name: holdfast-controller, static_configs: [{targets: [%s]}]}
  - {job_name: holdfast-node, static_configs: [{targets: [%s]}]}
`

// startPrometheus starts one in a folder that has alerts.yaml, and returns when it is ready. It ends with this process.
func startPrometheus(ctx context.Context, dir string, l harness.Layout) (*server, error) {
	path, err := exec.LookPath("prometheus")
	if err != nil {
		return nil, errNoPrometheus
	}
	var controllers, nodes []string
	for _, c := range l.Controllers {
		controllers = append(controllers, fmt.Sprintf("%q", c.Metrics))
	}
	for _, n := range l.Nodes {
		nodes = append(nodes, fmt.Sprintf("%q", n.Metrics))
	}
	config := fmt.Sprintf(configText, strings.Join(controllers, ","), strings.Join(nodes, ","))
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yaml"), []byte(config), 0o600); err != nil {
		return nil, err
	}
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	s := &server{url: "http://" + address, done: make(chan struct{}), log: filepath.Join(dir, "prometheus.log")}
	s.cmd = exec.Command(path, "--config.file="+filepath.Join(dir, "prometheus.yaml"), "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+address, "--log.level=warn")
	if err := s.start(); err != nil {
		return nil, err
	}
	err = harness.Poll(ctx, harness.Patience, "prometheus to be ready", func() (bool, error) {
		select {
		case <-s.done:
			return false, harness.Permanent(fmt.Errorf("prometheus ended: %w: %s", s.ended, s.logText()))
		default:
		}
		_, err := s.get(ctx, "/-/ready", nil)
		return err == nil, err
	})
	if err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

func (s *server) start() error {
	log, err := os.Create(s.log)
	if err != nil {
		return err
	}
	defer log.Close()
	s.cmd.Stdout, s.cmd.Stderr = log, log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		return fmt.Errorf("start prometheus: %w", err)
	}
	go func() { s.ended = s.cmd.Wait(); close(s.done) }()
	return nil
}

// stop ends it and waits for its end.
func (s *server) stop() {
	_ = s.cmd.Process.Kill()
	<-s.done
}

func (s *server) logText() string {
	text, _ := os.ReadFile(s.log)
	return string(text)
}

// freeAddress is one on loopback that nobody listens on now.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// get asks for a path, and decodes the data of the answer, of one of the API's.
func (s *server) get(ctx context.Context, path string, data any) (status int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return resp.StatusCode, fmt.Errorf("ask %s: %s", path, resp.Status)
	}
	if data == nil {
		return resp.StatusCode, nil
	}
	return resp.StatusCode, json.NewDecoder(resp.Body).Decode(&struct {
		Data any `json:"data"`
	}{data})
}

// sample is one series of an instant query.
type sample struct {
	Metric map[string]string `json:"metric"`
	Value  [2]any            `json:"value"`
}

// query is an instant query for a vector.
func (s *server) query(ctx context.Context, expr string) ([]sample, error) {
	var data struct {
		Result []sample `json:"result"`
	}
	_, err := s.get(ctx, "/api/v1/query?query="+url.QueryEscape(expr), &data)
	return data.Result, err
}

// holds tells whether an expression has a series now.
func (s *server) holds(ctx context.Context, expr string) (bool, error) {
	found, err := s.query(ctx, expr)
	return len(found) > 0, err
}

// types are the types of all metrics that were scraped, as the processes said them.
func (s *server) types(ctx context.Context) (map[string]string, error) {
	var data map[string][]struct {
		Type string `json:"type"`
	}
	_, err := s.get(ctx, "/api/v1/metadata", &data)
	types := map[string]string{}
	for name, said := range data {
		types[name] = said[0].Type
	}
	return types, err
}
