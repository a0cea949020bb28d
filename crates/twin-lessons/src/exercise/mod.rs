use serde_json::{Value, json};
pub struct Chapter; pub struct Exercise; pub struct Grade; pub struct Part; pub struct Question;
pub fn chapters(){} pub fn exercise(){} pub fn grade(){} pub fn paper(){}
pub(crate) fn listed()->Value{json!({})}
pub(crate) fn asked(_:&str,_:&str)->Result<Value,String>{Ok(json!({}))}
pub(crate) fn graded(_:&str,_:&str,_:&Value)->Result<Value,String>{Ok(json!({}))}
