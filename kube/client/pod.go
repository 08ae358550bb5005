package client

import (
	"fmt"
	"os"
	"strings"
)

// namespacePath is where kubelet puts the namespace of a pod's service account.
const namespacePath = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// podNamespace is the namespace of the pod that this process runs in.
func podNamespace() (string, error) {
	if name := os.Getenv("POD_NAMESPACE"); name != "" {
		return name, nil
	}
	text, err := os.ReadFile(namespacePath)
	if err != nil {
		return "", fmt.Errorf("read this pod's namespace, which POD_NAMESPACE names too: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}
