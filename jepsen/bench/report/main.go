// Command report runs the project's benchmarks and prints one table: for each figure the median, the
// minimum and the maximum of its runs, the target, and whether it is met. Ratios are of systems measured
// side by side in one run.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
)

func main() {
	only := flag.String("only", "", "regular expression: run only the suites whose name matches")
	raw := flag.Bool("raw", false, "print what the benchmarks print, too")
	flag.Parse()
	match, err := regexp.Compile(*only)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench: --only:", err)
		os.Exit(2)
	}
	if err := measure(match, *raw); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func measure(match *regexp.Regexp, raw bool) error {
	results := samples{}
	for _, s := range suites {
		if !match.MatchString(s.name) {
			continue
		}
		fmt.Fprintf(os.Stderr, "measuring %s (%s)\n", s.name, s.duration)
		if err := s.run(results, raw); err != nil {
			return fmt.Errorf("measure %s: %w", s.name, err)
		}
	}
	printTable(os.Stdout, results)
	return nil
}

// run runs one suite and adds its metrics to the results.
func (s suite) run(results samples, raw bool) error {
	args := []string{
		"test", "-tags", "bench", "-run", "^$", "-bench", s.bench, "-benchtime", s.benchtime,
		"-count", fmt.Sprint(s.count), "-timeout", "60m", s.pkg,
	}
	cmd := exec.Command("go", args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	var log strings.Builder
	err = results.parse(io.TeeReader(out, &log))
	err = errors.Join(err, cmd.Wait())
	if raw || err != nil {
		fmt.Fprint(os.Stderr, log.String())
	}
	return err
}

// samples holds every value of a metric, keyed by "Benchmark metric".
type samples map[string][]float64

// parse adds the metrics of lines of the form `BenchmarkName-2  N  value unit  value unit`.
func (s samples) parse(r io.Reader) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) < 4 || !strings.HasPrefix(f[0], "Benchmark") {
			continue
		}
		name := cpuSuffix.ReplaceAllString(f[0], "")
		for i := 2; i+1 < len(f); i += 2 {
			var v float64
			if _, err := fmt.Sscan(f[i], &v); err == nil {
				key := name + " " + f[i+1]
				s[key] = append(s[key], v)
			}
		}
	}
	return lines.Err()
}

var cpuSuffix = regexp.MustCompile(`-\d+$`)
