package cli

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/cmd/config"
)

// pluginName is what kubectl calls for `kubectl holdfast`.
const pluginName = "kubectl-holdfast"

// asPlugin has a program of the plugin's name ask the controllers that run in Kubernetes, unless its environment or its flags
// name others.
func asPlugin(program string) {
	if filepath.Base(program) != pluginName {
		return
	}
	if _, set := os.LookupEnv(config.EnvName("kube")); !set {
		_ = os.Setenv(config.EnvName("kube"), "true") // fails for names with = or NUL only
	}
}

// nameAsPlugin has help and errors say what a person typed.
func nameAsPlugin(root *cobra.Command) {
	if filepath.Base(os.Args[0]) == pluginName {
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl holdfast"}
	}
}
