package rendertest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// setup is the one container of a controller's pod that is root's: it gives folders to the controller.
const setup = "data-folder"

// handler puts DRBD's handler onto the host.
const handler = "handler"

func TestContainersAreConfined(t *testing.T) {
	for path := range sets {
		for name, spec := range podSpecs(objectsOfSet(t, path)) {
			for _, container := range containers(spec) {
				at := path + ": " + name + "/" + container.Name
				require.NotEmpty(t, container.Resources.Requests, at)
				require.NotNil(t, container.SecurityContext, at)
				require.True(t, *container.SecurityContext.ReadOnlyRootFilesystem, at)
				if name == "holdfast-node" {
					require.True(t, *container.SecurityContext.Privileged, at)
					require.Zero(t, *container.SecurityContext.RunAsUser, at)
					continue
				}
				isRestricted(t, at, spec, container)
			}
		}
	}
}

// isRestricted holds a container of a controller's pod against Kubernetes' restricted profile, but for the setup.
func isRestricted(t *testing.T, at string, spec corev1.PodSpec, container corev1.Container) {
	t.Helper()
	context := container.SecurityContext
	require.False(t, *context.AllowPrivilegeEscalation, at)
	require.Nil(t, context.Privileged, at)
	require.Equal(t, []corev1.Capability{"ALL"}, context.Capabilities.Drop, at)
	require.Equal(t, corev1.SeccompProfileTypeRuntimeDefault, spec.SecurityContext.SeccompProfile.Type, at)
	require.EqualValues(t, 9800, *spec.SecurityContext.RunAsUser, at)
	if container.Name == setup {
		require.Equal(t, []corev1.Capability{"CHOWN", "FOWNER", "DAC_OVERRIDE"}, context.Capabilities.Add, at)
		return
	}
	require.Empty(t, context.Capabilities.Add, at)
	require.Nil(t, context.RunAsUser, "%s: one user for all, as the socket admits its own only", at)
	require.True(t, *spec.SecurityContext.RunAsNonRoot, at)
}

func TestImagesAreOfOneVersion(t *testing.T) {
	for path, release := range sets {
		for _, image := range images(t, renderSet(t, path)) {
			_, version, tagged := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
			require.True(t, tagged, "%s: %s", path, image)
			require.NotEqual(t, "latest", version, "%s: %s", path, image)
			if mirror, ok := release.Values["global"]; ok {
				require.True(t, strings.HasPrefix(image, mirror.(tree)["imageRegistry"].(string)+"/"), "%s: %s", path, image)
			}
		}
	}
}

// Every volume that is mounted is there, every one that is there is mounted, and no path is mounted over twice.
func TestVolumesAreMounted(t *testing.T) {
	for path := range sets {
		list := objectsOfSet(t, path)
		for name, spec := range podSpecs(list) {
			there := map[string]bool{}
			for _, volume := range spec.Volumes {
				there[volume.Name] = false
			}
			if name == "holdfast-controller" {
				there["data"] = false // of the claim
			}
			for _, container := range containers(spec) {
				paths := map[string]bool{}
				for _, mount := range container.VolumeMounts {
					require.Contains(t, there, mount.Name, "%s: %s/%s", path, name, container.Name)
					require.False(t, paths[mount.MountPath], "%s: %s/%s: %s", path, name, container.Name, mount.MountPath)
					there[mount.Name], paths[mount.MountPath] = true, true
				}
			}
			for volume, mounted := range there {
				require.True(t, mounted, "%s: %s: volume %s", path, name, volume)
			}
		}
	}
}

func containers(spec corev1.PodSpec) []corev1.Container {
	return append(append([]corev1.Container{}, spec.InitContainers...), spec.Containers...)
}
