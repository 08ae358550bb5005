package loop

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	corev1 "k8s.io/api/core/v1"
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
		pv, err := plan.Decode(maps.Items[i].Data[plan.SavedKey])
		if err != nil {
			return nil, fmt.Errorf("ConfigMap %s: %w", maps.Items[i].Name, err)
		}
		all[pv.Name] = pv
	}
	return all, nil
}

// savedVolume is what was saved of a persistent volume, and the version of the ConfigMap that has it; nil where nothing was.
func (l *Loop) savedVolume(ctx context.Context, name string) (pv *corev1.PersistentVolume, version string, err error) {
	m, err := found(l.Kube.CoreV1().ConfigMaps(l.Namespace).Get(ctx, savedName(name), metav1.GetOptions{}))
	if m == nil || err != nil {
		return nil, "", err
	}
	pv, err = plan.Decode(m.Data[plan.SavedKey])
	return pv, m.ResourceVersion, err
}

// saveVolume writes it, in place of what that version has; without one, there must be none.
func (l *Loop) saveVolume(ctx context.Context, pv *corev1.PersistentVolume, version string) error {
	text, err := plan.Encode(pv)
	if err != nil {
		return err
	}
	m := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: savedName(pv.Name), Namespace: l.Namespace, ResourceVersion: version, Labels: map[string]string{plan.LabelSavedVolume: "true"}},
		Data:       map[string]string{plan.SavedKey: text},
	}
	if version == "" {
		_, err = l.Kube.CoreV1().ConfigMaps(l.Namespace).Create(ctx, m, metav1.CreateOptions{})
	} else {
		_, err = l.Kube.CoreV1().ConfigMaps(l.Namespace).Update(ctx, m, metav1.UpdateOptions{})
	}
	return err
}
