package rendertest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// ofPods are the flags of a node's pod that a host's file lacks: what is the pod's own, or has a default that is right on hosts.
var ofPods = []string{
	"node-id", "csi-endpoint", "kubelet-csi-path", "metrics-listen", "enroll-endpoints", "enroll-token-file", "enroll-ca", "handler",
}

// ofHosts are the lines of a host's file that no pod is told.
var ofHosts = []string{"csi-endpoint=unix:///run/holdfast/node.sock", "join-token-file=/etc/holdfast/node/token"}

// A host is told what a pod is told, by keys that are flags.
func TestHostsAreToldWhatPodsAre(t *testing.T) {
	node := tree{
		"pools": tree{"lvm": []any{"vg0/thin", "vg1/thin"}}, "topologyLabels": tree{"example.com/rack": "r1"}, "volumeMountGroup": true,
		"replication": tree{"enabled": true, "addressFrom": "10.1.0.0/16"}, "extraArgs": []any{"--ko-count=2"},
	}
	release := Release{KubeVersion: newest, Values: tree{"disabledCapabilities": []any{"EXPAND_VOLUME"}, "node": node}}
	want := slices.Clone(ofHosts)
	for _, arg := range podSpecs(objects(t, render(t, release)))["holdfast-node"].Containers[0].Args[1:] {
		if name, _, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "="); !slices.Contains(ofPods, name) {
			want = append(want, strings.TrimPrefix(arg, "--"))
		}
	}
	node["mode"] = "host"
	require.ElementsMatch(t, want, linesOfHosts(t, release))
}

// linesOfHosts are the keys of the file for hosts with their values, as flags would have them.
func linesOfHosts(t *testing.T, release Release) (out []string) {
	t.Helper()
	known, file := commandFlags(t)["node"], map[string]any{}
	for _, config := range all[*corev1.ConfigMap](objects(t, render(t, release))) {
		if config.Name == "holdfast-node" {
			require.NoError(t, yaml.UnmarshalStrict([]byte(config.Data["node.yaml"]), &file))
		}
	}
	for key, value := range file {
		require.Contains(t, known, key)
		list, is := value.([]any)
		switch {
		case key == "endpoints":
			out = append(out, key+"="+strings.Join(strings.Fields(strings.Trim(fmt.Sprint(list), "[]")), ","))
		case value == "true":
			out = append(out, key)
		case is:
			for _, one := range list {
				out = append(out, fmt.Sprintf("%s=%v", key, one))
			}
		default:
			out = append(out, fmt.Sprintf("%s=%v", key, value))
		}
	}
	return out
}

// An argument that is no flag cannot be a line of a file.
func TestArgumentsThatAreNoFlagsAreNotForHosts(t *testing.T) {
	_, err := Helm4(Release{KubeVersion: newest, Values: tree{"node": tree{"mode": "host", "extraArgs": []any{"--ko-count", "2"}}}})
	require.ErrorContains(t, err, "--flag=value")
}

// Each controller has an address that stays, at the ports that hosts use, and behind it that one pod.
func TestHostsFindEachController(t *testing.T) {
	for mode, want := range map[string]int{"pod": 0, "host": 5} {
		found := 0
		for _, service := range all[*corev1.Service](objects(t, render(t, Release{KubeVersion: newest, Values: tree{"controller": tree{"replicas": 5}, "node": tree{"mode": mode}}}))) {
			if service.Labels["app.kubernetes.io/component"] != "controller-for-hosts" {
				continue
			}
			require.Equal(t, fmt.Sprintf("holdfast-controller-%d", found), service.Name)
			require.Equal(t, service.Name, service.Spec.Selector["statefulset.kubernetes.io/pod-name"])
			require.Empty(t, service.Spec.ClusterIP)
			found++
		}
		require.Equal(t, want, found, mode)
	}
}
