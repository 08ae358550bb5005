// Package prometheus runs a real Prometheus for tests: it scrapes processes under the alert rules of the chart, of which only the times
// for which an alert must hold are shortened, and a test waits for its alerts.
package prometheus

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

// ErrMissing is of a machine without Prometheus.
var ErrMissing = errors.New("prometheus is missing: install the package prometheus")

// Server is a running Prometheus on loopback.
type Server struct {
	url   string
	cmd   *exec.Cmd
	done  chan struct{} // closed when it has ended
	ended error         // how; known once done is closed
	log   string        // its file
}

// configText scrapes and evaluates every second, so that a fault is seen while it lasts.
const configText = "global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}\nrule_files: [alerts.yaml]\nscrape_configs:\n"

// Job is what is scraped under one name.
type Job struct {
	Name    string
	Targets []string // their addresses
}

// configOf is a configuration that scrapes jobs.
func configOf(jobs []Job) string {
	config := strings.Builder{}
	config.WriteString(configText)
	for _, j := range jobs {
		fmt.Fprintf(&config, "  - {job_name: %s, static_configs: [{targets: [%s]}]}\n", j.Name, strings.Join(j.Targets, ", "))
	}
	return config.String()
}

// Start starts one in a folder that has alerts.yaml, and returns when it is ready. It ends with this process, or by Stop.
func Start(ctx context.Context, dir string, jobs []Job) (*Server, error) {
	path, err := exec.LookPath("prometheus")
	if err != nil {
		return nil, ErrMissing
	}
	file := filepath.Join(dir, "prometheus.yaml")
	if err := os.WriteFile(file, []byte(configOf(jobs)), 0o600); err != nil {
		return nil, err
	}
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	s := &Server{url: "http://" + address, done: make(chan struct{}), log: filepath.Join(dir, "prometheus.log")}
	s.cmd = exec.Command(path, "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address, "--log.level=warn")
	if err := s.start(); err != nil {
		return nil, err
	}
	if err := s.awaitReady(ctx); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

func (s *Server) awaitReady(ctx context.Context) error {
	return harness.Poll(ctx, harness.Patience, "prometheus to be ready", func() (bool, error) {
		select {
		case <-s.done:
			return false, harness.Permanent(fmt.Errorf("prometheus ended: %w: %s", s.ended, s.logText()))
		default:
		}
		_, err := s.get(ctx, "/-/ready", nil)
		return err == nil, err
	})
}

func (s *Server) start() error {
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

// Stop ends it and waits for its end.
func (s *Server) Stop() {
	_ = s.cmd.Process.Kill()
	<-s.done
}

func (s *Server) logText() string {
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
func (s *Server) get(ctx context.Context, path string, data any) (status int, err error) {
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

// Sample is one series of an instant query.
type Sample struct {
	Metric map[string]string `json:"metric"`
	Value  [2]any            `json:"value"`
}

// Query is an instant query for a vector.
func (s *Server) Query(ctx context.Context, expr string) ([]Sample, error) {
	var data struct {
		Result []Sample `json:"result"`
	}
	_, err := s.get(ctx, "/api/v1/query?query="+url.QueryEscape(expr), &data)
	return data.Result, err
}

// Holds tells whether an expression has a series now.
func (s *Server) Holds(ctx context.Context, expr string) (bool, error) {
	found, err := s.Query(ctx, expr)
	return len(found) > 0, err
}

// Types are the types of all metrics that were scraped, as the processes said them.
func (s *Server) Types(ctx context.Context) (map[string]string, error) {
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
