package stories

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"regexp"
	"slices"

	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/story"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// monitoring is the API group of Prometheus' operator, monitored what the chart makes of it where a cluster has it.
const monitoring = "monitoring.coreos.com"

var monitored = []string{"podmonitors", "prometheusrules"}

// monitoringCRD lets the API server keep objects of the operator, of which nothing is checked.
const monitoringCRD = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]ss.monitoring.coreos.com}
spec:
  group: monitoring.coreos.com
  scope: Namespaced
  names: {kind: %[2]s, listKind: %[2]sList, singular: %[1]s, plural: %[1]ss}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
---
`

// monitor is a PodMonitor, as far as the chart's go, or a PrometheusRule.
type monitor struct {
	Metadata struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
	} `json:"metadata"`
	Spec struct {
		Selector struct {
			MatchLabels map[string]string `json:"matchLabels"`
		} `json:"selector"`
		PodMetricsEndpoints []endpoint `json:"podMetricsEndpoints"`
		Groups              []any      `json:"groups"` // of rules
	} `json:"spec"`
}

// endpoint is a port of pods that is scraped.
type endpoint struct {
	Port        string `json:"port"`
	Interval    string `json:"interval"`
	HonorLabels bool   `json:"honorLabels"`
	Relabelings []struct {
		SourceLabels []string `json:"sourceLabels"`
		TargetLabel  string   `json:"targetLabel"`
	} `json:"relabelings"`
}

// readMonitors reads those that the chart made.
func readMonitors(ctx context.Context, t *story.Teller) (all []monitor, err error) {
	for _, resource := range monitored {
		found, err := t.In(namespace).List(ctx, resource+"."+monitoring, "")
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("the chart made none of the %s that this cluster has", resource)
		}
		for _, o := range found {
			m := monitor{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &m); err != nil {
				return nil, fmt.Errorf("read the %s %s: %w", resource, o.GetName(), err)
			}
			all = append(all, m)
		}
	}
	return all, nil
}

// configOf is a Prometheus that does what its operator has one do for these: pods is the file of what podsFound writes, rules that of the
// alerts.
func configOf(all []monitor, pods, rules string) ([]byte, error) {
	jobs := []any{}
	for _, m := range all {
		for number, e := range m.Spec.PodMetricsEndpoints {
			jobs = append(jobs, m.job(number, e, pods))
		}
	}
	return json.MarshalIndent(map[string]any{
		"global":     map[string]any{"evaluation_interval": "15s"},
		"rule_files": []string{rules}, "scrape_configs": jobs,
	}, "", "  ") // JSON is YAML
}

// rulesOf is the file of the chart's alerts as they are.
func rulesOf(all []monitor) ([]byte, error) {
	groups := []any{}
	for _, m := range all {
		groups = append(groups, m.Spec.Groups...)
	}
	return json.MarshalIndent(map[string]any{"groups": groups}, "", "  ")
}

// relabel is a step of Prometheus' with the labels that it reads.
func relabel(target string, sources ...string) map[string]any {
	return map[string]any{"source_labels": sources, "target_label": target}
}

func keepOnly(label, value string) map[string]any {
	return map[string]any{"action": "keep", "source_labels": []string{label}, "regex": regexp.QuoteMeta(value)}
}

// job is what the operator makes of an endpoint of a PodMonitor.
func (m monitor) job(number int, e endpoint, pods string) map[string]any {
	name := m.Metadata.Namespace + "/" + m.Metadata.Name
	steps := []any{}
	for _, label := range slices.Sorted(maps.Keys(m.Spec.Selector.MatchLabels)) {
		steps = append(steps, keepOnly(podLabel(label), m.Spec.Selector.MatchLabels[label]))
	}
	steps = append(steps, keepOnly("__meta_kubernetes_pod_container_port_name", e.Port),
		relabel("namespace", "__meta_kubernetes_namespace"), relabel("pod", "__meta_kubernetes_pod_name"),
		relabel("container", "__meta_kubernetes_pod_container_name"),
		map[string]any{"target_label": "job", "replacement": name}, map[string]any{"target_label": "endpoint", "replacement": e.Port})
	for _, r := range e.Relabelings {
		steps = append(steps, relabel(r.TargetLabel, r.SourceLabels...))
	}
	return map[string]any{
		"job_name": fmt.Sprintf("podMonitor/%s/%d", name, number), "honor_labels": e.HonorLabels, "scrape_interval": e.Interval, "relabel_configs": steps,
		"file_sd_configs": []any{map[string]any{"files": []string{pods}, "refresh_interval": "5s"}},
	}
}

// target is a port of a container, under the labels with which Prometheus' own discovery of pods has it.
type target struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels"`
}

// podsFound does what Prometheus' discovery of pods does, which Debian's is built without.
func podsFound(ctx context.Context, t *story.Teller) (all []target, err error) {
	pods, err := t.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, p := range pods.Items {
		for _, c := range p.Spec.Containers {
			for _, port := range c.Ports {
				if p.Status.PodIP != "" {
					all = append(all, targetOf(p, c.Name, port))
				}
			}
		}
	}
	return all, nil
}

func targetOf(p corev1.Pod, container string, port corev1.ContainerPort) target {
	labels := map[string]string{
		"__meta_kubernetes_namespace": p.Namespace, "__meta_kubernetes_pod_name": p.Name, "__meta_kubernetes_pod_node_name": p.Spec.NodeName,
		"__meta_kubernetes_pod_container_name": container, "__meta_kubernetes_pod_container_port_name": port.Name,
	}
	for name, value := range p.Labels {
		labels[podLabel(name)] = value
	}
	return target{[]string{net.JoinHostPort(p.Status.PodIP, fmt.Sprint(port.ContainerPort))}, labels}
}

// noLabel is what Prometheus has no letters for in the name of a label.
var noLabel = regexp.MustCompile(`[^a-zA-Z0-9_]`)

func podLabel(name string) string {
	return "__meta_kubernetes_pod_label_" + noLabel.ReplaceAllString(name, "_")
}
