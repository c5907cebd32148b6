package httpapi

import (
	"strconv"
	"time"

	"shardid/model"
)

// AppItem is an app in JSON, over HTTP and from the command line. Numbers that may be above
// 2^53 also come as strings. ID is the older name of AppID.
type AppItem struct {
	AppID         uint8             `json:"appId"`
	ID            uint8             `json:"id"`
	Name          string            `json:"name"`
	Description   string            `json:"description"`
	Shards        int               `json:"shards"`
	Step          int64             `json:"step"`
	MaxLimitID    int64             `json:"maxLimitId"`
	MaxLimitIDStr string            `json:"maxLimitIdStr"`
	LimitPolicy   model.LimitPolicy `json:"limitPolicy"`
	HighestIndex  int64             `json:"highestIndex"`
	TotalIndices  int64             `json:"totalIndices"`
}

// NewAppItem shows an app.
func NewAppItem(a model.AppSummary) AppItem {
	return AppItem{
		AppID: a.ID, ID: a.ID, Name: a.Name, Description: a.Description, Shards: a.Shards, Step: a.Step,
		MaxLimitID: a.Limit.MaxID, MaxLimitIDStr: strconv.FormatInt(a.Limit.MaxID, 10), LimitPolicy: a.Limit.Policy,
		HighestIndex: a.HighestIndex, TotalIndices: a.TotalIndices,
	}
}

// appView is an app as an answer, appList some of them.
type appView struct {
	Code int `json:"code"` // always 0
	AppItem
	Effective string `json:"effective,omitempty"`
}

type appList struct {
	Code int       `json:"code"` // always 0
	Apps []AppItem `json:"apps"`
}

func newAppView(a model.AppSummary) appView { return appView{AppItem: NewAppItem(a)} }

func newAppList(apps []model.AppSummary) appList {
	list := appList{Apps: make([]AppItem, len(apps))}
	for i, app := range apps {
		list.Apps[i] = NewAppItem(app)
	}
	return list
}

// TagItem is a tag in JSON, over HTTP and from the command line.
type TagItem struct {
	Tag         string    `json:"tag"`
	MaxID       int64     `json:"maxId"`
	MaxIDStr    string    `json:"maxIdStr"`
	Step        int64     `json:"step"`
	Description string    `json:"description"`
	UpdatedAt   time.Time `json:"updatedAt"`
}

// NewTagItem shows a tag.
func NewTagItem(t model.Tag) TagItem {
	return TagItem{
		Tag: t.Name, MaxID: t.MaxID, MaxIDStr: strconv.FormatInt(t.MaxID, 10),
		Step: t.Step, Description: t.Description, UpdatedAt: t.UpdatedAt.UTC(),
	}
}

// tagView is a tag as an answer, tagList some of them.
type tagView struct {
	Code int `json:"code"` // always 0
	TagItem
	Effective string `json:"effective,omitempty"`
}

type tagList struct {
	Code int       `json:"code"` // always 0
	Tags []TagItem `json:"tags"`
}

func newTagView(t model.Tag) tagView { return tagView{TagItem: NewTagItem(t)} }

func newTagList(tags []model.Tag) tagList {
	list := tagList{Tags: make([]TagItem, len(tags))}
	for i, tag := range tags {
		list.Tags[i] = NewTagItem(tag)
	}
	return list
}
