package rendertest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// What a host's pod writes into mount tables, kernels and records must be true on the host: every folder of it has its own path. Kubelet is told
// where it finds the socket.
func TestFoldersOfHostsHaveTheirOwnPaths(t *testing.T) {
	for path := range sets {
		spec, ok := podSpecs(objectsOfSet(t, path))["holdfast-node"]
		if !ok {
			require.Contains(t, path, "host-", "every other set has a DaemonSet")
			continue
		}
		folders := map[string]string{}
		for _, volume := range spec.Volumes {
			if volume.HostPath != nil {
				folders[volume.Name] = volume.HostPath.Path
			}
		}
		for _, container := range containers(spec) {
			for _, mount := range container.VolumeMounts {
				if folder, ok := folders[mount.Name]; ok && mount.Name == "socket" {
					require.Equal(t, folder+"/csi.sock", values(spec.Containers[0].Args)["kubelet-csi-path"], path)
				} else if mount.Name == "host-root" {
					require.Equal(t, handler, container.Name, "%s: what puts the handler on the host writes no path down", path)
				} else if ok {
					require.Equal(t, folder, mount.MountPath, "%s: %s", path, container.Name)
					require.Empty(t, mount.SubPath, path)
				}
			}
		}
	}
}

// Mounts reach the host from wherever volumes and pools are mounted, and from nowhere below a folder that propagates already.
func TestMountsReachTheHost(t *testing.T) {
	for path := range sets {
		spec, ok := podSpecs(objectsOfSet(t, path))["holdfast-node"]
		if !ok {
			continue
		}
		propagating := []string{}
		for _, mount := range spec.Containers[0].VolumeMounts {
			if mount.MountPropagation != nil && *mount.MountPropagation == corev1.MountPropagationBidirectional {
				propagating = append(propagating, mount.MountPath)
			}
		}
		for flag, value := range values(spec.Containers[0].Args) {
			if flag == "pool-dir" || flag == "allow-root" {
				require.True(t, below(value, propagating), "%s: --%s=%s", path, flag, value)
			}
		}
		for _, mount := range spec.Containers[0].VolumeMounts {
			for _, folder := range propagating {
				require.False(t, strings.HasPrefix(mount.MountPath, folder+"/"), "%s: %s is mounted on the host too", path, mount.MountPath)
			}
		}
	}
}

func TestReplicasNeedTheHost(t *testing.T) {
	spec := podSpecs(objectsOfSet(t, "testdata/golden/replicated-1.36.yaml"))["holdfast-node"]
	require.True(t, spec.HostPID)
	require.True(t, spec.HostIPC)
	require.True(t, spec.HostNetwork)
	require.Equal(t, corev1.DNSClusterFirstWithHostNet, spec.DNSPolicy)
	require.Equal(t, "$(HOST_IP)", values(spec.Containers[0].Args)["replication-address"])
	other := podSpecs(objectsOfSet(t, "testdata/golden/everything-1.37.yaml"))["holdfast-node"]
	require.Equal(t, "10.1.0.0/16", values(other.Containers[0].Args)["replication-address"])
	require.Equal(t, values(spec.Containers[0].Args)["handler"], values(spec.InitContainers[0].Args)["handler"])
}

// values are the arguments that have one, by flag.
func values(args []string) map[string]string {
	out := map[string]string{}
	for _, arg := range args {
		if name, value, ok := strings.Cut(strings.TrimPrefix(arg, "--"), "="); ok {
			out[name] = value
		}
	}
	return out
}

func below(path string, folders []string) bool {
	for _, folder := range folders {
		if path == folder || strings.HasPrefix(path, folder+"/") {
			return true
		}
	}
	return false
}

// Whatever the values say, controllers and hosts' pods run where a node joins: only then is its taint taken off.
func TestPodsRunOnNodesThatJoin(t *testing.T) {
	for what, tolerations := range map[string][]any{
		"none": {}, "another": {tree{"key": "storage", "operator": "Exists"}}, "everything": {tree{"operator": "Exists"}},
		"that one": {tree{"key": "csi.holdfast.storage/agent-not-ready", "operator": "Exists"}},
	} {
		given := tree{"tolerations": tolerations}
		specs := podSpecs(objects(t, render(t, Release{KubeVersion: newest, Values: tree{"controller": given, "node": given}})))
		for _, name := range []string{"holdfast-controller", "holdfast-node"} {
			taint := corev1.Taint{Key: "csi.holdfast.storage/agent-not-ready", Effect: corev1.TaintEffectNoExecute}
			n := 0
			for _, toleration := range specs[name].Tolerations {
				if (toleration.Key == "" || toleration.Key == taint.Key) && toleration.Operator == corev1.TolerationOpExists && toleration.Effect == "" {
					n++
				}
			}
			require.Equal(t, 1, n, "%s, whose values tolerate %s", name, what)
		}
	}
}
