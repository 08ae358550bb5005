package loop

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-storage/holdfast/kube/plan"
)

// savedName is the ConfigMap of a persistent volume that is made anew. A long name is shortened by its hash.
func savedName(pv string) string {
	const most = 200
	if len(pv) > most {
		sum := sha256.Sum256([]byte(pv))
		pv = hex.EncodeToString(sum[:])
	}
	return "holdfast-saved-" + pv
}

// savedVolumes are those that are being made anew, by name.
func (l *Loop) savedVolumes(ctx context.Context) (map[string]*corev1.PersistentVolume, error) {
	maps, err := l.Kube.CoreV1().ConfigMaps(l.Namespace).List(ctx, metav1.ListOptions{LabelSelector: plan.LabelSavedVolume})
	if err != nil {
		return nil, fmt.Errorf("list saved persistent volumes: %w", err)
	}
	all := map[string]*corev1.PersistentVolume{}
	for i := range maps.Items {
		pv, err := plan.Decode(maps.Items[i].Data[savedKey])
		if err != nil {
			return nil, fmt.Errorf("ConfigMap %s: %w", maps.Items[i].Name, err)
		}
		all[pv.Name] = pv
	}
	return all, nil
}

func (l *Loop) savedVolume(ctx context.Context, name string) (*corev1.PersistentVolume, error) {
	m, err := found(l.Kube.CoreV1().ConfigMaps(l.Namespace).Get(ctx, savedName(name), metav1.GetOptions{}))
	if m == nil || err != nil {
		return nil, err
	}
	return plan.Decode(m.Data[savedKey])
}

// saveVolume writes it, in place of what was saved of it before.
func (l *Loop) saveVolume(ctx context.Context, pv *corev1.PersistentVolume) error {
	text, err := plan.Encode(pv)
	if err != nil {
		return err
	}
	m := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: savedName(pv.Name), Namespace: l.Namespace, Labels: map[string]string{plan.LabelSavedVolume: "true"}},
		Data:       map[string]string{savedKey: text},
	}
	maps := l.Kube.CoreV1().ConfigMaps(l.Namespace)
	if _, err = maps.Create(ctx, m, metav1.CreateOptions{}); apierrors.IsAlreadyExists(err) {
		_, err = maps.Update(ctx, m, metav1.UpdateOptions{})
	}
	return err
}
