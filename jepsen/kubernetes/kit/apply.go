package kit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// Apply makes the objects of a manifest, or changes them to be so; the arguments are put in as by fmt.Sprintf.
func (k *Kit) Apply(ctx context.Context, manifest string, args ...any) error {
	if len(args) > 0 {
		manifest = fmt.Sprintf(manifest, args...)
	}
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(manifest), 4096)
	for {
		var object unstructured.Unstructured
		if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read a manifest: %w", err)
		}
		if len(object.Object) == 0 {
			continue
		}
		if err := k.apply(ctx, &object); err != nil {
			return fmt.Errorf("apply the %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
}

func (k *Kit) apply(ctx context.Context, object *unstructured.Unstructured) error {
	kind := object.GroupVersionKind()
	mapping, err := k.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		k.mapper.Reset()
		mapping, err = k.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	}
	if err != nil {
		return err
	}
	namespace := k.Namespace
	if object.GetNamespace() != "" {
		namespace = object.GetNamespace()
	}
	_, err = k.in(mapping, namespace).Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: "stories", Force: true})
	return err
}

// Patch merges a JSON patch into one object.
func (k *Kit) Patch(ctx context.Context, resource, name, patch string) error {
	r, err := k.of(resource)
	if err != nil {
		return err
	}
	if _, err := r.Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "stories"}); err != nil {
		return fmt.Errorf("patch %s %s: %w", resource, name, err)
	}
	return nil
}

// Delete deletes one object, or nothing where it is gone; at once is without a grace period.
func (k *Kit) Delete(ctx context.Context, resource, name string, atOnce bool) error {
	r, err := k.of(resource)
	if err != nil {
		return err
	}
	options := metav1.DeleteOptions{}
	if atOnce {
		options.GracePeriodSeconds = new(int64)
	}
	if err := r.Delete(ctx, name, options); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete %s %s: %w", resource, name, err)
	}
	return nil
}
