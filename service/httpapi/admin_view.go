package httpapi

import (
	"strconv"
	"time"

	"shardid/model"
)

// appItem is an app in a list. Numbers that may be above 2^53 also come as strings.
type appItem struct {
	ID            uint8             `json:"id"`
	Name          string            `json:"name"`
	Description   string            `json:"description"`
	Shards        int               `json:"shards"`
	Step          int64             `json:"step"`
	MaxLimitID    int64             `json:"maxLimitId"`
	MaxLimitIDStr string            `json:"maxLimitIdStr"`
	LimitPolicy   model.LimitPolicy `json:"limitPolicy"`
	HighestIndex  int64             `json:"highestIndex"`
}

func newAppItem(a model.AppSummary) appItem {
	return appItem{
		ID: a.ID, Name: a.Name, Description: a.Description, Shards: a.Shards, Step: a.Step,
		MaxLimitID: a.Limit.MaxID, MaxLimitIDStr: strconv.FormatInt(a.Limit.MaxID, 10), LimitPolicy: a.Limit.Policy,
		HighestIndex: a.HighestIndex,
	}
}

// appView is an app as an answer, appList some of them.
type appView struct {
	Code int `json:"code"` // always 0
	appItem
	Effective string `json:"effective,omitempty"`
}

type appList struct {
	Code int       `json:"code"` // always 0
	Apps []appItem `json:"apps"`
}

func newAppView(a model.AppSummary) appView { return appView{appItem: newAppItem(a)} }

func newAppList(apps []model.AppSummary) appList {
	list := appList{Apps: make([]appItem, len(apps))}
	for i, app := range apps {
		list.Apps[i] = newAppItem(app)
	}
	return list
}

// tagItem is a tag in a list.
type tagItem struct {
	Tag         string    `json:"tag"`
	MaxID       int64     `json:"maxId"`
	MaxIDStr    string    `json:"maxIdStr"`
	Step        int64     `json:"step"`
	Description string    `json:"description"`
	UpdatedAt   time.Time `json:"updatedAt"`
}

func newTagItem(t model.Tag) tagItem {
	return tagItem{
		Tag: t.Name, MaxID: t.MaxID, MaxIDStr: strconv.FormatInt(t.MaxID, 10),
		Step: t.Step, Description: t.Description, UpdatedAt: t.UpdatedAt.UTC(),
	}
}

// tagView is a tag as an answer, tagList some of them.
type tagView struct {
	Code int `json:"code"` // always 0
	tagItem
	Effective string `json:"effective,omitempty"`
}

type tagList struct {
	Code int       `json:"code"` // always 0
	Tags []tagItem `json:"tags"`
}

func newTagView(t model.Tag) tagView { return tagView{tagItem: newTagItem(t)} }

func newTagList(tags []model.Tag) tagList {
	list := tagList{Tags: make([]tagItem, len(tags))}
	for i, tag := range tags {
		list.Tags[i] = newTagItem(tag)
	}
	return list
}
