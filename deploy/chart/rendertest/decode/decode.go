// Package decode reads manifests into the types of Kubernetes, and refuses what those do not have. It is a module of its
// own for one reason: here its tests are of one version of these types, and in the module that renders, of the next one.
package decode

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// Scheme has the kinds of Kubernetes that the chart makes.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		appsv1.AddToScheme, corev1.AddToScheme, networkingv1.AddToScheme, policyv1.AddToScheme, rbacv1.AddToScheme, storagev1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return scheme, nil
}

// Documents are the objects of a manifest, each as it is written.
func Documents(manifest []byte) ([][]byte, error) {
	var out [][]byte
	reader := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(manifest)))
	for {
		document, err := reader.Read()
		switch {
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return nil, fmt.Errorf("read a manifest: %w", err)
		case len(bytes.TrimSpace(withoutComments(document))) != 0:
			out = append(out, document)
		}
	}
}

// withoutComments leaves out the lines that are comments only.
func withoutComments(document []byte) []byte {
	var out []byte
	for line := range bytes.Lines(document) {
		if trimmed := bytes.TrimSpace(line); !bytes.HasPrefix(trimmed, []byte("#")) && !bytes.Equal(trimmed, []byte("---")) {
			out = append(out, line...)
		}
	}
	return out
}

// Strict reads one object into its type of the scheme. A field that the type does not have, or that is there twice, is an error;
// runtime.IsNotRegisteredError tells of an error of a kind that is not in the scheme.
func Strict(scheme *runtime.Scheme, document []byte) (runtime.Object, error) {
	strict := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Yaml: true, Strict: true})
	object, _, err := strict.Decode(document, nil, nil)
	return object, err
}
